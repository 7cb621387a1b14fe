//! The commands that a master sends: a transaction of its is one here, and some that come together share one.

use super::control::Ended;
use super::lock;
use super::master::{BEAT, Master};
use super::perform::{Performer, Step, Unit};
use crate::command::{PER_ARGUMENT, PER_COMMAND, Run, find_whole, note_script, shown};
use crate::keyspace::DATABASES;
use crate::keyspace::followed::Place;
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Args, Limits, RequestReader, number};
use crate::server::Server;
use crate::store::Session;
use std::io::{self, ErrorKind, Read};
use std::time::Instant;

/// Bytes of units, and their number, in one transaction of the pool.
const BYTES_MAX: usize = 256 << 10;
const COUNT_MAX: usize = 16;
/// Bytes that are read from one wait for durability to the next.
const READ_MAX: u64 = 1 << 20;
/// Bytes without a command that changes anything after which the pool is told of the place.
const IDLE_BYTES: u64 = 16 << 10;
/// Bytes of the stream, beside those of commands, that a transaction may have.
const SLACK: usize = 16 << 20;

/// Follows until that ends.
pub(super) fn follow<S: Session>(
    server: &Server,
    session: &mut S,
    header: u64,
    master: &mut Master<'_>,
    place: Place,
) -> Result<Ended, Ended> {
    let life = master.life;
    let mut performer = Performer::new(server, session, header, life);
    performer.passes_on_from(place.at);
    let mut stream = Stream {
        performer,
        db: place.db,
        at: place.at,
        at_db: place.db,
        noted: place.at,
        open: None,
        units: Vec::new(),
        bytes: 0,
        open_bytes: 0,
        wants_ack: true,
    };
    let mut reader = RequestReader::default();
    let (mut read, mut unwaited, mut told) = (0, 0, Instant::now());
    let mut comes = false;
    let most = server.options.max_request.saturating_add(SLACK);
    loop {
        loop {
            let request = match reader.next(Limits::USUAL) {
                Ok(Some(request)) => request,
                Ok(None) => break,
                Err(error) => {
                    stream.finish()?;
                    return Err(Ended::Broken(format!("the master's stream: {}", error.0)));
                }
            };
            let at = place.at.wrapping_add(read - reader.unread() as u64);
            stream.take(reader.args(request), at)?;
        }
        if stream.open.is_none() {
            // Empty lines count, too.
            stream.at = place.at.wrapping_add(read - reader.unread() as u64);
            stream.at_db = stream.db;
        } else if stream.performer.unpassed() > most {
            stream.finish()?;
            let text = "a transaction of the master's is larger than --max-request";
            return Err(Ended::ForGood(text.to_owned()));
        }
        reader.release();
        if !comes || unwaited >= READ_MAX {
            unwaited = 0;
            stream.settle()?;
            server.following.note(life, |facts| {
                (facts.place, facts.db) = (stream.at, stream.at_db);
                facts.heard = Some(master.heard());
            });
            if stream.wants_ack || told.elapsed() >= BEAT {
                (stream.wants_ack, told) = (false, Instant::now());
                let at = stream.at.to_string();
                master.send(&[b"REPLCONF", b"ACK", at.as_bytes()])?;
            }
        }
        let room = reader.prepare();
        let came = match reader.fill(&mut Tee(&mut *master, stream.performer.passes())) {
            Ok(came) => came,
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::Interrupted) => 0,
            Err(error) => {
                // What has come is performed: it need not be sent again.
                stream.finish()?;
                return Err(Ended::broken(error));
            }
        };
        read += came as u64;
        unwaited += came as u64;
        // More is there already, unless this was less than there was room for.
        comes = came == room;
    }
}

/// A master whose bytes are kept as well, for this server's replicas.
struct Tee<'a, 'm>(&'a mut Master<'m>, &'a mut Vec<u8>);

impl Read for Tee<'_, '_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = self.0.read(to)?;
        self.1.extend_from_slice(&to[..len]);
        Ok(len)
    }
}

struct Stream<'a, S: Session> {
    performer: Performer<'a, S>,
    /// The database that is chosen.
    db: u8,
    /// How far the stream was read, but for a transaction whose end is still to come.
    at: u64,
    /// The database that is chosen there.
    at_db: u8,
    /// The place that the pool has, or will have.
    noted: u64,
    /// The commands since MULTI.
    open: Option<Vec<Step>>,
    /// Units that are yet to be performed.
    units: Vec<Unit>,
    bytes: usize,
    open_bytes: usize,
    /// Whether the master asks how far this is.
    wants_ack: bool,
}

impl<S: Session> Stream<'_, S> {
    /// Takes a command, after which the stream is at `at`.
    fn take(&mut self, args: Args<'_>, at: u64) -> Result<(), Ended> {
        let name = args.at(0).to_ascii_lowercase();
        match (name.as_slice(), args.len()) {
            (b"select", 2) => {
                let index =
                    number::parse_i64(args.at(1)).and_then(|index| u8::try_from(index).ok());
                let index = index.filter(|index| *index < DATABASES).ok_or_else(|| {
                    Ended::ForGood(format!(
                        "the master uses database {}, and this server has only 0 to {}",
                        shown(args.at(1), 32),
                        DATABASES - 1
                    ))
                });
                match index {
                    Ok(index) => self.db = index,
                    Err(ended) => return self.end(ended),
                }
            }
            (b"ping", _) => {}
            (b"replconf", _) => self.wants_ack |= args.is(1, "getack"),
            // Of masters before Redis 7.
            (b"script", _) => {
                if note_script(self.performer.server, args).is_err() {
                    let text = "a script of the master's cannot be kept here";
                    return self.end(Ended::ForGood(text.to_owned()));
                }
            }
            (b"multi", 1) if self.open.is_none() => self.open = Some(Vec::new()),
            (b"exec", 1) => match self.open.take() {
                Some(steps) => self.push(steps, at)?,
                None => return self.end(Ended::broken("the master sends EXEC without MULTI")),
            },
            _ => {
                let step = match self.step(args) {
                    Ok(step) => step,
                    Err(ended) => return self.end(ended),
                };
                let bytes = args.bytes() + args.len() * PER_ARGUMENT + PER_COMMAND;
                match &mut self.open {
                    Some(open) => {
                        open.push(step);
                        self.open_bytes += bytes;
                        if self.open_bytes > self.performer.server.options.max_request {
                            let text = "a transaction of the master's is larger than --max-request";
                            return self.end(Ended::ForGood(text.to_owned()));
                        }
                    }
                    None => {
                        self.bytes += bytes;
                        self.push(vec![step], at)?;
                    }
                }
            }
        }
        if self.open.is_none() {
            (self.at, self.at_db) = (at, self.db);
        }
        Ok(())
    }

    fn step(&self, args: Args<'_>) -> Result<Step, Ended> {
        let lacks = || {
            let words = args.iter().take(4).map(|word| shown(word, 64)).collect::<Vec<_>>();
            Ended::ForGood(format!(
                "the master has sent a command that this server cannot perform: {}",
                words.join(" ")
            ))
        };
        let command = find_whole(args).ok_or_else(lacks)?;
        if matches!(command.run, Run::Client(_)) || !command.takes(args.len()) {
            return Err(lacks());
        }
        Ok(Step { command, args: OwnedArgs::from(args), db: self.db })
    }

    fn push(&mut self, steps: Vec<Step>, at: u64) -> Result<(), Ended> {
        self.bytes += std::mem::take(&mut self.open_bytes);
        self.units.push(Unit { steps, at, db: self.db });
        let is_full = self.bytes >= BYTES_MAX || self.units.len() >= COUNT_MAX;
        if is_full { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Ended> {
        let units = std::mem::take(&mut self.units);
        self.noted = units.last().map_or(self.noted, |unit| unit.at);
        self.bytes = 0;
        let turn = self.performer.turn();
        let done = self.performer.perform(&units, true);
        drop(turn);
        if done.is_err() {
            // Clients that were served before it are told.
            self.performer.wait()?;
        }
        done
    }

    /// All that was taken is performed, and durable.
    fn settle(&mut self) -> Result<(), Ended> {
        // A master that has nothing to tell still says that it is there.
        if self.units.is_empty() && self.at.wrapping_sub(self.noted) >= IDLE_BYTES {
            self.units.push(Unit { steps: Vec::new(), at: self.at, db: self.at_db });
        }
        self.flush()?;
        if self.at > self.noted {
            // Nothing in it changes anything.
            let _turn = lock(&self.performer.server.following.turn);
            self.performer.pass(self.at);
        }
        self.performer.wait()
    }

    /// The same, since nothing more comes.
    fn finish(&mut self) -> Result<(), Ended> {
        self.settle()
    }

    /// Ends after what was taken before.
    fn end(&mut self, ended: Ended) -> Result<(), Ended> {
        self.finish()?;
        Err(ended)
    }
}
