//! The thread that moves keys.

use super::Orders;
use super::request::{Login, Move};
use super::target::{Kept, Manner, Patience, Target};
use crate::command::{Call, Env, Failure, Notes, blocking, find, perform};
use crate::keyspace::{Database, Hint, now};
use crate::listing::Listing;
use crate::net::recheck;
use crate::pause::Paused;
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Protocol, Reply};
use crate::rdb::{self, form, values};
use crate::room::{self, Lack};
use crate::server::Server;
use crate::stats::Stats;
use crate::store::Session;
use crate::tls::Tls;
use crate::watch::Watched;
use perdura::{Error, Tx};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

/// Keys, and bytes of values, that are read and sent together.
const TOGETHER: usize = 512;
const BYTES: usize = 16 << 20;
/// How often keys are sent again that were written meanwhile.
const ATTEMPTS: u32 = 16;
/// How soon it is looked again whether a script or a pause lets others write, and whether there is something to do.
const SOON: Duration = Duration::from_millis(1);
const IDLE: Duration = Duration::from_millis(500);
/// How a target confirms: anything else but an error is not Redis's.
const OK: &[u8] = b"+OK";

/// Why a request is not done. The text of the answer.
struct Refused(String);

/// A key of which the target was told.
struct Sent<'k> {
    key: &'k [u8],
    /// Since before it was read.
    watched: Watched,
    /// Whether it was not here any longer, though the target has it from here: it was told to delete it.
    is_gone: bool,
}

/// A target's answers, each a line.
type Answers = Vec<Vec<u8>>;

/// What a connection to a target is at.
enum Step {
    Connecting,
    Writing,
    Reading,
}

struct Mover<'a, S: Session> {
    server: &'a Server,
    session: S,
    keyspace: u64,
    stats: Stats,
    notes: Notes,
    /// Whose the deletions are.
    client: Listing,
    kept: Kept,
    turns: u64,
}

/// Moves keys until there is nobody left who would order that.
pub(super) fn run<S: Session>(server: &Server, session: S, keyspace: u64, mut orders: Orders<'_>) {
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut mover = Mover {
        server,
        session,
        keyspace,
        stats: Stats::default(),
        notes: Notes::default(),
        // No client has this number.
        client: Listing::new(u64::MAX - 1, nobody, nobody),
        kept: Kept::default(),
        turns: 0,
    };
    loop {
        match orders.next(IDLE) {
            Ok(request) => {
                // Nothing is done for a client that was ended meanwhile.
                let is_there = server.clients().contains_key(&request.to.id);
                let reply = is_there.then(|| mover.answer(&request));
                orders.end(reply);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        mover.recheck();
        mover.kept.tidy(manner(server));
        server.migration.sockets.store(mover.kept.len(), Ordering::Relaxed);
        if server.stopping() {
            return;
        }
    }
}

/// How targets are spoken to now.
fn manner(server: &Server) -> Manner {
    match server.migration.speaks_tls() {
        true => Manner::Secure(server.tls.as_ref().map_or(0, Tls::edition)),
        false => Manner::Plain,
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let mut reply = Vec::new();
        Failure::Pool(error).tell(&mut Reply::new(&mut reply, Protocol::Resp2));
        let text = String::from_utf8_lossy(&reply);
        Refused(text.trim_start_matches('-').trim_end().to_owned())
    }
}

impl<'a, S: Session> Mover<'a, S> {
    /// Does what a request asks for. Returns the reply.
    fn answer(&mut self, request: &Move) -> Vec<u8> {
        let done = self.work(request);
        let mut bytes = Vec::new();
        let mut out = Reply::new(&mut bytes, request.protocol);
        match done {
            Ok(true) => out.ok(),
            Ok(false) => out.simple("NOKEY"),
            Err(Refused(text)) => out.error(&text),
        }
        bytes
    }

    /// Returns whether there was any of the keys.
    fn work(&mut self, request: &Move) -> Result<bool, Refused> {
        let keys = request.keys();
        let (mut wanted, mut again, mut any) = (keys, false, false);
        let mut failure = None;
        for _ in 0..ATTEMPTS {
            let mut sent = Vec::new();
            let moved = self.send_all(request, &wanted, again, &mut sent, &mut failure);
            any |= !sent.is_empty() || moved.is_err() || failure.is_some();
            // What the target has confirmed is deleted, whatever has become of the rest.
            let changed = match request.copies {
                true => Vec::new(),
                false => self.delete(request.db, sent)?,
            };
            moved?;
            if changed.is_empty() || failure.is_some() {
                return failure.map_or(Ok(any), Err);
            }
            // The target has an older value of these, from here.
            (wanted, again) = (changed, true);
        }
        Err(Refused(
            "ERR Target instance has an older value of a key that is still being written here. The key was not deleted"
                .into(),
        ))
    }

    /// Sends all of these keys that are here, and notes those that the target has confirmed, and the first error that it has
    /// answered with. If they are sent `again`, the target is told to delete those that are not here any longer.
    fn send_all<'k>(
        &mut self,
        request: &Move,
        keys: &[&'k [u8]],
        again: bool,
        sent: &mut Vec<Sent<'k>>,
        failure: &mut Option<Refused>,
    ) -> Result<(), Refused> {
        let mut left = keys;
        while !left.is_empty() {
            let (read, mut found, commands) = self.read(request, left, again)?;
            left = &left[read..];
            if found.is_empty() {
                continue;
            }
            let answers = self.exchange(request, &commands, &found);
            let (lines, broken) = match answers {
                Ok(lines) => (lines, None),
                Err((lines, error)) => (lines, Some(error)),
            };
            for (line, one) in lines.iter().zip(found.drain(..)) {
                match line.strip_prefix(b"-") {
                    None if one.is_gone => {}
                    None => sent.push(one),
                    Some(text) => {
                        failure.get_or_insert_with(|| target_failed(text));
                    }
                }
            }
            // An error of the target's is told rather than that the connection broke after it.
            if let Some(error) = broken {
                return Err(failure.take().unwrap_or(error));
            }
        }
        Ok(())
    }

    /// Reads the first of these keys. Returns how many it has looked for, those of which the target is to be told, and a
    /// command for each of them.
    fn read<'k>(
        &mut self,
        request: &Move,
        keys: &[&'k [u8]],
        again: bool,
    ) -> Result<(usize, Vec<Sent<'k>>, Vec<u8>), Refused> {
        let server = self.server;
        let keys = &keys[..keys.len().min(TOGETHER)];
        // Before they are read: see `work`.
        let watched = keys.iter().map(|key| server.watch.watch(request.db, key));
        let watched: Vec<Watched> = watched.collect();
        let (mut commands, mut read, mut is_there) = (Vec::new(), 0, Vec::new());
        let stream_form = match server.tuning.dump_version() {
            rdb::VERSION_MAX => form::STREAM_LAST,
            _ => form::STREAM,
        };
        let most = server.options.max_reply;
        let db = Database::new(self.keyspace, request.db);
        let mut refused = None;
        let ticket = self.session.read(&mut |tx| {
            commands.clear();
            is_there.clear();
            (read, refused) = (0, None);
            for key in keys {
                if commands.len() > BYTES {
                    break;
                }
                read += 1;
                let time = now();
                let found = db.find(tx, key)?.filter(|found| !found.entry.expired(time));
                is_there.push(found.is_some());
                let Some(found) = found else {
                    if again {
                        push(&mut commands, &[b"DEL", key]);
                    }
                    continue;
                };
                let (mut value, mut fits) = (Vec::new(), true);
                let written = values::write(tx, found.entry, stream_form, &mut value, &mut |len| {
                    fits &= len <= most;
                    fits
                });
                match written {
                    Ok(()) => {}
                    Err(Failure::Pool(error)) => return Err(error),
                    Err(Failure::Say(text)) => refused = Some(text.into_owned()),
                    Err(Failure::NoRoom(text)) => refused = Some(text),
                }
                if !fits {
                    refused = Some(format!(
                        "ERR a key's value is larger than {most} bytes, see --max-reply"
                    ));
                }
                if refused.is_some() {
                    return Ok(());
                }
                rdb::finish(&mut value);
                let left = found.entry.expires().map_or(0, |end| end.saturating_sub(time).max(1));
                let left = left.to_string();
                let args: [&[u8]; 5] = [b"RESTORE", key, left.as_bytes(), &value, b"REPLACE"];
                push(&mut commands, &args[..if again || request.replaces { 5 } else { 4 }]);
            }
            Ok(())
        })?;
        // Nobody is told of what a power cut may undo.
        self.session.wait(ticket).inspect_err(|error| server.fail(error))?;
        if let Some(text) = refused {
            return Err(Refused(text));
        }
        let told =
            keys.iter().zip(watched).zip(is_there).filter(|(_, is_there)| *is_there || again);
        let sent =
            |((&key, watched), is_there): (_, bool)| Sent { key, watched, is_gone: !is_there };
        let found = told.map(sent).collect();
        Ok((read, found, commands))
    }

    /// Sends a command for each of these keys, and reads the answers: confirmations and errors. With an error come those
    /// that were read before it; none if the target has answered what no Redis would.
    fn exchange(
        &mut self,
        request: &Move,
        commands: &[u8],
        keys: &[Sent<'_>],
    ) -> Result<Answers, (Answers, Refused)> {
        let server = self.server;
        let is_over = || server.stopping();
        let patience = Patience { timeout: request.timeout, is_over: &is_over };
        // Before the files are read: of later ones it can only say that they are older.
        let manner = manner(server);
        let name = Kept::name(request, manner);
        loop {
            let kept = self.kept.take(&name);
            let was_kept = kept.is_some();
            let is_secure = manner != Manner::Plain;
            let tls = (is_secure && !was_kept).then(|| server.client_config()).transpose();
            let refused = |why| (Vec::new(), Refused(format!("ERR tls-cluster: {why}")));
            let tls = tls.map_err(refused)?;
            let mut lines = Vec::new();
            let mut step = Step::Connecting;
            let connected = kept.map_or_else(|| Target::connect(request, tls, &patience), Ok);
            let done = connected.and_then(|mut target| {
                step = Step::Writing;
                // If the target lets nobody in, nothing of the keys was sent.
                if let Some(line) = enter(&mut target, request, &patience, &mut step)? {
                    lines = vec![line; keys.len()];
                    return Ok(target);
                }
                step = Step::Writing;
                target.send(commands, &patience)?;
                step = Step::Reading;
                for key in keys {
                    let line = target.line(&patience)?;
                    let is_done = if key.is_gone { line.starts_with(b":") } else { line == OK };
                    if !is_done && !line.starts_with(b"-") {
                        lines.clear();
                        return Err(ErrorKind::InvalidData.into());
                    }
                    lines.push(line);
                }
                Ok(target)
            });
            match done {
                Ok(target) => {
                    self.kept.put(name, target);
                    return Ok(lines);
                }
                // The target had closed a connection that was kept.
                Err(error) if was_kept && lines.is_empty() && may_be_closed(&error) => {}
                Err(error) => {
                    // Redis learns that nobody listens when it writes.
                    let is_refused = error.kind() == ErrorKind::ConnectionRefused;
                    let text = match step {
                        Step::Connecting if is_refused => {
                            "IOERR error or timeout writing to target instance"
                        }
                        Step::Connecting => "IOERR error or timeout connecting to the client",
                        Step::Writing => "IOERR error or timeout writing to target instance",
                        Step::Reading => "IOERR error or timeout reading to target instance",
                    };
                    return Err((lines, Refused(text.into())));
                }
            }
        }
    }

    /// Deletes keys that the target has, in one transaction, or, if it would be too large, in several. Returns those that
    /// were written since they were read.
    fn delete<'k>(&mut self, db: u8, mut sent: Vec<Sent<'k>>) -> Result<Vec<&'k [u8]>, Refused> {
        if sent.is_empty() {
            return Ok(Vec::new());
        }
        match self.delete_together(db, &sent) {
            Ok(changed) => Ok(changed),
            Err(Error::TooLarge { .. }) if sent.len() > 1 => {
                let rest = sent.split_off(sent.len() / 2);
                let mut changed = self.delete(db, sent)?;
                changed.append(&mut self.delete(db, rest)?);
                Ok(changed)
            }
            Err(Error::Aborted(text)) => Err(Refused(text)),
            Err(error) => {
                if let Error::Io(_) = error {
                    self.server.fail(&error);
                }
                Err(error.into())
            }
        }
    }

    fn delete_together<'k>(&mut self, db: u8, sent: &[Sent<'k>]) -> Result<Vec<&'k [u8]>, Error> {
        let server = self.server;
        let worker = server.stats.len() + 1;
        let is_paused = || server.pause.now() != Paused::None;
        let writing = loop {
            if !server.runs.has_long_beside(worker) && !is_paused() {
                // Looked at once more when it has said that it is about to write: see `pause.rs`.
                let writing = server.runs.of(worker).write();
                if !is_paused() {
                    break writing;
                }
            }
            if server.stopping() {
                return Err(Error::Aborted(
                    "ERR the server is stopping: not all keys were deleted".into(),
                ));
            }
            thread::sleep(SOON);
        };
        self.turns += 1;
        let Mover { session, keyspace, stats, notes, client, turns, .. } = self;
        let mut env = notes.env(server, worker, stats, *keyspace, now(), *turns);
        let (mut changed, mut tries, mut last) = (Vec::new(), 0, None);
        let done = loop {
            let done = session.write(&mut |tx| {
                env.begin_writing(tx)?;
                changed = delete_unchanged(tx, env, client, (db, sent))?;
                if server.waiting.count() > 0 {
                    blocking::serve(tx, env, None)?;
                }
                env.tally.end();
                env.end_writing(tx)
            });
            env.end(&done);
            server.runs.of(worker).settle();
            match done {
                Ok(ticket) => {
                    last = last.max(Some(ticket));
                    break Ok(());
                }
                Err(error @ (Error::Full { .. } | Error::NoSpace { .. })) if !env.last_resort => {
                    env.last_resort =
                        !room::make(session, env, tries, &Lack::of(&error), &mut last)?;
                    tries += 1;
                }
                Err(error) => break Err(error),
            }
        };
        drop(writing);
        if let Some(ticket) = last {
            session.wait(ticket)?;
            self.tell();
        }
        done.map(|()| changed)
    }

    /// All that was done is durable: clients and replicas hear of it.
    fn tell(&mut self) {
        let (server, notes) = (self.server, &self.notes);
        if let Some(deliver) = server.deliver.get() {
            notes.waits.take_deliveries().into_iter().for_each(deliver);
        }
        if notes.posts.are_ready()
            && let Some(post) = server.post.get()
        {
            post(notes.posts.take_ready());
        }
        server.tell_trackers(notes.tracked.take_ready());
        if notes.effects.are_ready() {
            server.replication.send(server, notes.effects.take_ready());
        }
    }

    /// Serves clients whose keys are to be looked at again since a deletion.
    fn recheck(&mut self) {
        if !self.notes.waits.has_recheck() {
            return;
        }
        self.turns += 1;
        let Mover { server, session, keyspace, stats, notes, turns, .. } = self;
        let env = notes.env(server, server.stats.len() + 1, stats, *keyspace, now(), *turns);
        let done = recheck(session, env).and_then(|ticket| match ticket {
            Some(ticket) => session.wait(ticket),
            None => Ok(()),
        });
        match done {
            Ok(()) => self.tell(),
            Err(error) => server.fail(&error),
        }
    }
}

/// Deletes those keys that were not written since they were read. Returns the others.
fn delete_unchanged<'k>(
    tx: &mut dyn Tx,
    env: Env<'_>,
    client: &Listing,
    (db, sent): (u8, &[Sent<'k>]),
) -> Result<Vec<&'k [u8]>, Error> {
    let Some(del) = find(b"del") else { return Ok(Vec::new()) };
    if let Some(text) = env.server.following.gate().refusal(del) {
        return Err(Error::Aborted(text.to_owned()));
    }
    let mut args = OwnedArgs::default();
    args.push(b"DEL");
    let mut changed = Vec::new();
    for Sent { key, watched, .. } in sent {
        match perform::is_unchanged(tx, env, watched)? {
            true => args.push(key),
            false => changed.push(*key),
        }
    }
    if args.as_args().len() == 1 {
        return Ok(changed);
    }
    let mut reply = Vec::new();
    let call = Call {
        tx,
        env,
        db: Database::new(env.keyspace, db),
        client,
        args: args.as_args(),
        out: Reply::new(&mut reply, Protocol::Resp2),
        may_wait: false,
        near: Hint::default(),
    };
    perform::one(call, del)?;
    match reply.strip_prefix(b"-") {
        None => Ok(changed),
        Some(text) => Err(Error::Aborted(String::from_utf8_lossy(text).trim_end().to_owned())),
    }
}

/// Has the target let in who is to be, and choose the database. Returns its error.
fn enter(
    target: &mut Target,
    request: &Move,
    patience: &Patience<'_>,
    step: &mut Step,
) -> std::io::Result<Option<Vec<u8>>> {
    let mut commands = Vec::new();
    if let Some(Login { user, password }) = &request.login {
        let user = user.as_deref();
        let args: Vec<&[u8]> =
            [b"AUTH".as_slice()].into_iter().chain(user).chain([&**password]).collect();
        push(&mut commands, &args);
    }
    let logs_in = !commands.is_empty();
    let selects = target.db != Some(request.target_db);
    if selects {
        push(&mut commands, &[b"SELECT", request.target_db.to_string().as_bytes()]);
    }
    target.send(&commands, patience)?;
    *step = Step::Reading;
    let mut refused = None;
    for is_wanted in [logs_in, selects] {
        if is_wanted {
            let line = target.line(patience)?;
            if line.starts_with(b"-") {
                refused = refused.or(Some(line));
            } else if line != OK {
                return Err(ErrorKind::InvalidData.into());
            }
        }
    }
    target.db = refused.is_none().then_some(request.target_db);
    Ok(refused)
}

fn target_failed(text: &[u8]) -> Refused {
    let text = String::from_utf8_lossy(text);
    Refused(format!("ERR Target instance replied with error: {text}"))
}

/// Whether a connection may only have been closed.
fn may_be_closed(error: &std::io::Error) -> bool {
    !matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::InvalidData)
}

/// Appends a command as servers read it.
fn push(to: &mut Vec<u8>, args: &[&[u8]]) {
    let mut out = Reply::new(to, Protocol::Resp2);
    out.array(args.len());
    args.iter().for_each(|arg| out.bulk(arg));
}
