//! Commands without connections and threads, for a program that has clients of its own: the module for Redis
//! (`crates/module`). It finds commands by [`DataCommand::find`], and performs them in its own transactions
//! ([`Commands::run`]), or each in one of its own ([`Commands::perform`]).
//!
//! Keys expire only where a command meets them: the program deletes those whose time has come
//! ([`Commands::remove`]). Nobody waits for keys here: [`Performed::wish`] says that a client would.

use crate::client::Home;
use crate::command::perform;
use crate::command::{
    self, Call, Classes, Command, Env, Failure, Notes, Run, all, find, find_whole,
};
use crate::keyspace::{self, DATABASES, Database, Hint, garbage};
use crate::listing::Listing;
use crate::options::Options;
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Args, Protocol, Reply};
use crate::pubsub::{Kind, Subscriptions};
use crate::rdb;
use crate::room::{self, Lack};
use crate::server::Server;
use crate::store::Store as _;
use perdura::{Error, Handle, Pool, Result, Ticket, Tx};
use std::sync::Arc;
use std::time::Duration;

/// Entries or blocks of the garbage list that [`Commands::tidy`] frees in a transaction.
const FREED: u64 = 256;
/// Attempts to make room for a command.
const ATTEMPTS: u32 = 10;

/// A command on data.
#[derive(Clone, Copy)]
pub struct DataCommand {
    group: &'static str,
    command: &'static Command,
}

impl DataCommand {
    /// All of them, those that perform others (scripts) excepted.
    pub fn all() -> impl Iterator<Item = DataCommand> {
        let on_data = |command: &Command| {
            !matches!(command.run, Run::Client(_)) && !command.nests && !command.name.contains('|')
        };
        all()
            .filter(move |(_, command)| on_data(command))
            .map(|(group, command)| DataCommand { group, command })
    }

    /// The number of the command of this name, in any case: below [`count`](Self::count).
    pub fn number(name: &[u8]) -> Option<usize> {
        find(name).map(|command| command.number)
    }

    /// One more than the largest number of a command.
    pub fn count() -> usize {
        all().count()
    }

    /// Its own number.
    pub fn own_number(self) -> usize {
        self.command.number
    }

    /// Whether it takes so many arguments, its name included.
    pub fn takes(self, len: usize) -> bool {
        self.command.takes(len)
    }

    /// Its name, in lower case.
    pub fn name(self) -> &'static str {
        self.command.name
    }

    /// The group that COMMAND DOCS names: `hash`, for instance.
    pub fn group(self) -> &'static str {
        self.group
    }

    /// Whether it may write.
    pub fn writes(self) -> bool {
        self.command.writes()
    }

    /// Where its keys are: first, last (from the end, if negative), step; zeros for none at fixed places.
    pub fn keys(self) -> (i32, i32, i32) {
        self.command.keys
    }

    /// Whether it has keys at places that depend on its arguments.
    pub fn has_moving_keys(self) -> bool {
        command::move_about(self.command)
    }
}

/// A command to be performed: its arguments, and what the time and the client decide.
#[derive(Clone, Debug)]
pub struct Request {
    args: OwnedArgs,
    /// The database.
    pub db: u8,
    /// Whether the reply is to be in the third version of the protocol.
    pub resp3: bool,
    /// Milliseconds since 1970.
    pub now: u64,
    /// From which members are chosen at random.
    pub seed: u64,
    /// Whether the client may wait: otherwise a blocking command answers as if its time were over.
    pub may_wait: bool,
}

impl Request {
    /// A request in database 0, at time 0.
    pub fn new<'a>(args: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let args = args.into_iter().collect();
        Request { args, db: 0, resp3: false, now: 0, seed: 0, may_wait: false }
    }

    /// A RESTORE of a newer server's DUMP, as one of a version that is known here: RESTORE refuses forms of values that it
    /// does not know, and need not refuse the others. Other requests stay as they are.
    pub fn with_known_version(self) -> Self {
        let args = self.args.as_args();
        let is_restore = args.is(0, "restore") && args.len() > 3;
        let Some(payload) = is_restore.then(|| rdb::renewed(args.at(3))).flatten() else {
            return self;
        };
        let all = args.iter().enumerate();
        let args = all.map(|(at, arg)| if at == 3 { payload.as_slice() } else { arg }).collect();
        Request { args, ..self }
    }

    /// The same in another database.
    pub fn in_database(self, db: u8) -> Self {
        Request { db, ..self }
    }

    /// The same at a time, with a number for chance.
    pub fn at(self, now: u64, seed: u64) -> Self {
        Request { now, seed, ..self }
    }

    /// Whether its command may write.
    pub fn writes(&self) -> bool {
        self.args.as_args().get(0).and_then(find).is_some_and(Command::writes)
    }

    /// Its arguments, the command's name first.
    pub fn args(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.args.as_args().iter()
    }

    /// The places of its keys among the arguments; none where the command would answer with an error.
    pub fn key_places(&self) -> Vec<usize> {
        let args = self.args.as_args();
        let Some(command) = find(args.get(0).unwrap_or_default()) else { return Vec::new() };
        if !command.takes(args.len()) {
            return Vec::new();
        }
        let mut places = command::key_positions(command, args).unwrap_or_default();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// What a key is after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// Whether the command has written it.
    pub is_written: bool,
    /// Whether it is there, expired or not.
    pub is_there: bool,
    /// When it expires, in milliseconds since 1970.
    pub expires: Option<u64>,
}

/// What a blocking command waits for.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The arguments to perform it with when a key is filled.
    pub args: Vec<Vec<u8>>,
    /// Its keys.
    pub keys: Vec<Vec<u8>>,
    /// For how long; `None` for ever.
    pub timeout: Option<Duration>,
}

/// A command that was performed.
#[derive(Clone, Debug, Default)]
pub struct Performed {
    /// The reply, as it goes over the wire.
    pub reply: Vec<u8>,
    /// Whether anything in the pool was changed, or written as it was.
    pub changed: bool,
    /// The keys' states, in the order of [`Request::key_places`]; none if nothing was changed.
    pub keys: Vec<KeyState>,
    /// The events of keys, if they are told ([`Commands::tell_events`]): each one's database, its name, and the key.
    pub events: Vec<(u8, String, Vec<u8>)>,
    /// What its client waits for; then there is no reply.
    pub wish: Option<Waiting>,
}

/// A pool's keyspace, and all that commands need besides.
pub struct Commands {
    server: Server,
    /// No effects among them: no replica follows.
    notes: Notes,
    client: Listing,
    /// Keeps the server telling events.
    listens: Subscriptions,
    keyspace: u64,
}

impl Commands {
    /// How many databases a pool has.
    pub const DATABASES: u8 = DATABASES;

    /// Opens the pool's keyspace, which is made if there is none.
    ///
    /// # Errors
    /// As the transaction; `Aborted`, with advice, if the keyspace is another program's.
    pub fn open(pool: &Pool, handle: &mut Handle) -> Result<Self> {
        let seed = keyspace::unguessable();
        let keyspace =
            handle.transaction(|tx| keyspace::open(tx, seed)?.map_err(Error::Aborted))?;
        let address = ([127, 0, 0, 1], 0).into();
        let facts = pool.clone();
        let options = Options::new().threads(1);
        let server = Server::new(options, address, Box::new(move || facts.facts()));
        server.set_expires_actively(false);
        let client = Listing::new(1, address, address);
        let mut listens = Subscriptions::default();
        let listener = Home::default().listener(&Arc::new(Listing::new(2, address, address)));
        server.pubsub.subscribe(&mut listens, &listener, Kind::Channel, b"");
        Ok(Commands { server, notes: Notes::default(), client, listens, keyspace })
    }

    fn env(&self, now: u64, seed: u64, last_resort: bool) -> Env<'_> {
        Env {
            last_resort,
            ..self.notes.env(&self.server, 0, &self.server.stats[0], self.keyspace, now, seed)
        }
    }

    fn db(&self, db: u8) -> Result<Database> {
        match db < DATABASES {
            true => Ok(Database::new(self.keyspace, db)),
            false => Err(Error::Invalid("the pool has 16 databases")),
        }
    }

    /// Has commands tell of the events of keys, or not. They are those of `notify-keyspace-events`.
    pub fn tell_events(&self, tells: bool) {
        debug_assert!(!self.listens.is_empty(), "events are told while somebody listens");
        let letters: &[u8] = if tells { b"AE" } else { b"" };
        if let Some(classes) = Classes::parse(letters) {
            self.server.events.set(classes);
        }
    }

    /// Sets an option that has a number, as CONFIG SET does: `stream-node-max-entries`, for instance. Returns whether
    /// there is one of this name that may have this value.
    pub fn set_option(&self, name: &str, value: &str) -> bool {
        self.server.tuning.set(name, value.as_bytes())
    }

    /// A transaction's body begins, perhaps once more.
    pub fn begin(&self) {
        self.env(0, 0, true).begin();
    }

    /// The transaction is over.
    pub fn end<T>(&self, done: &Result<T>) {
        self.env(0, 0, true).end(done);
    }

    /// Performs a command in a transaction, between [`begin`](Self::begin) and [`end`](Self::end). One that fails, even
    /// for want of room, is undone, and its reply is the error.
    ///
    /// # Errors
    /// When the transaction cannot go on.
    pub fn run(&self, tx: &mut dyn Tx, request: &Request) -> Result<Performed> {
        let point = tx.point();
        match self.attempt(tx, request, true) {
            Err(error @ Error::TooLarge { .. }) => {
                tx.undo_to(point)?;
                let mut reply = Vec::new();
                Failure::Pool(error).tell(&mut Reply::new(&mut reply, protocol(request)));
                Ok(Performed { reply, ..Performed::default() })
            }
            done => done,
        }
    }

    fn attempt(&self, tx: &mut dyn Tx, request: &Request, last: bool) -> Result<Performed> {
        let args = request.args.as_args();
        let mut reply = Vec::new();
        let mut out = Reply::new(&mut reply, protocol(request));
        let Some(command) = find_whole(args) else {
            out.error("ERR unknown command");
            return Ok(Performed { reply, ..Performed::default() });
        };
        if !command.takes(args.len()) {
            Failure::arity(command.name).tell(&mut out);
            return Ok(Performed { reply, ..Performed::default() });
        }
        let out = out.at_most(self.server.options.max_reply);
        let env = self.env(request.now, request.seed, last);
        let db = self.db(request.db)?;
        let (changes, posted) = (tx.moment().changes, self.notes.posts.mark());
        let written = self.notes.touched.mark();
        let (client, may_wait) = (&self.client, request.may_wait);
        let call =
            Call { tx: &mut *tx, env, db, client, args, out, may_wait, near: Hint::default() };
        perform::one(call, command)?;
        let wish = self.notes.waits.take_wish().map(|wish| {
            let sent = wish.args.as_ref().map_or(args, OwnedArgs::as_args);
            let (first, count) = wish.keys;
            Waiting {
                args: owned(sent),
                keys: owned(sent.first(first, count)),
                timeout: wish.timeout,
            }
        });
        // What a command has changed before it failed is undone.
        let is_changed = tx.moment().changes != changes || self.notes.touched.mark() != written;
        let changed = is_changed && reply.first() != Some(&b'-');
        let events = self.notes.posts.take_since(posted).into_iter().filter_map(|post| {
            let channel = String::from_utf8_lossy(&post.channel).into_owned();
            let (db, event) = channel.strip_prefix("__keyevent@")?.split_once("__:")?;
            Some((db.parse().ok()?, event.to_owned(), post.message))
        });
        let events = events.collect();
        let mut keys = Vec::new();
        if changed {
            for place in request.key_places() {
                let key = args.at(place);
                let is_written = self.notes.touched.has(written, request.db, key);
                keys.push(KeyState { is_written, ..self.state(tx, request.db, key)? });
            }
        }
        Ok(Performed { reply, changed, keys, events, wish })
    }

    /// Performs a command in a transaction of its own; when the pool is full, after making room. Returns when it is
    /// committed, with the ticket of its durability.
    ///
    /// # Errors
    /// When the medium has failed, or the pool is damaged.
    pub fn perform(&self, handle: &mut Handle, request: &Request) -> Result<(Performed, Ticket)> {
        if !request.writes() {
            self.begin();
            let done = handle.submit_read(|tx| self.run(tx, request));
            self.end(&done);
            return done;
        }
        for attempt in 0..ATTEMPTS {
            let done = handle.submit(|tx| {
                self.begin();
                self.attempt(tx, request, false)
            });
            self.end(&done);
            match done {
                Err(error @ (Error::Full { .. } | Error::NoSpace { .. })) => {
                    let env = self.env(request.now, request.seed, false);
                    // Nobody is told of what goes.
                    if !room::make(handle, env, attempt, &Lack::of(&error), &mut None)? {
                        break;
                    }
                }
                Err(Error::TooLarge { .. }) => break,
                done => return done,
            }
        }
        // The reply is the error, unless there is room now.
        let done = handle.submit(|tx| {
            self.begin();
            self.run(tx, request)
        });
        self.end(&done);
        done
    }

    /// What a key is.
    ///
    /// # Errors
    /// As the transaction.
    pub fn state(&self, tx: &mut dyn Tx, db: u8, key: &[u8]) -> Result<KeyState> {
        let found = self.db(db)?.find(tx, key)?;
        let expires = found.and_then(|found| found.entry.expires());
        Ok(KeyState { is_written: false, is_there: found.is_some(), expires })
    }

    /// Removes a key. Returns whether it was there.
    ///
    /// # Errors
    /// As the transaction.
    pub fn remove(&self, tx: &mut dyn Tx, db: u8, key: &[u8]) -> Result<bool> {
        self.db(db)?.remove(tx, key)
    }

    /// Removes all keys of a database, or of all of them.
    ///
    /// # Errors
    /// As the transaction.
    pub fn clear(&self, tx: &mut dyn Tx, db: Option<u8>) -> Result<()> {
        let range = db.map_or(0..DATABASES, |db| db..db.saturating_add(1));
        range.into_iter().try_for_each(|db| self.db(db)?.clear(tx))
    }

    /// Exchanges the keys of two databases.
    ///
    /// # Errors
    /// As the transaction.
    pub fn swap(&self, tx: &mut dyn Tx, one: u8, other: u8) -> Result<()> {
        self.db(one)?.swap(tx, self.db(other)?)
    }

    /// Calls `each` with every key of every database, and what it is.
    ///
    /// # Errors
    /// As the transaction.
    pub fn for_each_key(
        &self,
        tx: &mut dyn Tx,
        each: &mut dyn FnMut(u8, &[u8], KeyState),
    ) -> Result<()> {
        for db in 0..DATABASES {
            let Some(keys) = self.db(db)?.keys(tx)? else { continue };
            keys.for_each(tx, &mut |key, entry| {
                each(
                    db,
                    &key,
                    KeyState { is_written: false, is_there: true, expires: entry.expires() },
                );
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Frees a part of what deleted values took. Returns whether there is more.
    ///
    /// # Errors
    /// As the transaction.
    pub fn tidy(&self, handle: &mut Handle) -> Result<bool> {
        if handle.submit_read(|tx| garbage::is_empty(tx, self.keyspace))?.0 {
            return Ok(false);
        }
        Ok(handle.submit(|tx| garbage::sweep(tx, self.keyspace, FREED))?.0)
    }
}

fn protocol(request: &Request) -> Protocol {
    if request.resp3 { Protocol::Resp3 } else { Protocol::Resp2 }
}

fn owned(args: Args<'_>) -> Vec<Vec<u8>> {
    args.iter().map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::EngineKind;

    struct Bench {
        commands: Commands,
        handle: Handle,
    }

    impl Bench {
        fn on(folder: &std::path::Path) -> Self {
            let options = perdura::Options::new().engine(EngineKind::CcStm).size(8 << 20);
            let pool = options.open_or_create(folder.join("a.pool")).unwrap();
            let mut handle = pool.session().unwrap();
            Bench { commands: Commands::open(&pool, &mut handle).unwrap(), handle }
        }

        fn run(&mut self, words: &str) -> Performed {
            let mut request = Request::new(words.split(' ').map(str::as_bytes)).at(1000, 1);
            request.may_wait = true;
            let (done, ticket) = self.commands.perform(&mut self.handle, &request).unwrap();
            self.handle.wait(ticket).unwrap();
            done
        }
    }

    #[test]
    fn commands_say_what_they_change() {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = Bench::on(folder.path());
        let there = |expires| KeyState { is_written: true, is_there: true, expires };
        let gone = KeyState { is_written: true, is_there: false, expires: None };
        let nothing = KeyState { is_written: false, ..gone };
        for (words, reply, keys) in [
            ("set a 1 px 500", "+OK\r\n", vec![there(Some(1500))]),
            ("set a 1 px 500", "+OK\r\n", vec![there(Some(1500))]),
            ("setnx a 2", ":0\r\n", vec![]),
            ("get a", "$1\r\n1\r\n", vec![]),
            ("mset b 1 c 2", "+OK\r\n", vec![there(None), there(None)]),
            ("rename b a", "+OK\r\n", vec![gone, there(None)]),
            ("sunionstore d nothing", ":0\r\n", vec![]),
            (
                "lpush a 1",
                "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
                vec![],
            ),
            ("move a x", "-ERR value is not an integer or out of range\r\n", vec![]),
            ("lpush a", "-ERR wrong number of arguments for 'lpush' command\r\n", vec![]),
            ("rpush l 1", ":1\r\n", vec![there(None)]),
            ("lpop l", "$1\r\n1\r\n", vec![gone]),
            ("sadd s x", ":1\r\n", vec![there(None)]),
            ("del nothing s", ":1\r\n", vec![nothing, gone]),
        ] {
            let done = bench.run(words);
            assert_eq!(String::from_utf8_lossy(&done.reply), reply, "{words}");
            assert_eq!(done.keys, keys, "{words}");
            assert_eq!(done.changed, !keys.is_empty(), "{words}");
        }
        let mut keys = Vec::new();
        let commands = &bench.commands;
        let walk = bench.handle.read(|tx| {
            keys.clear();
            commands.for_each_key(tx, &mut |db, key, _| keys.push((db, key.to_vec())))
        });
        walk.unwrap();
        keys.sort_unstable();
        assert_eq!(keys, [(0, b"a".to_vec()), (0, b"c".to_vec())]);
    }

    #[test]
    fn waits_and_events_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = Bench::on(folder.path());
        let wish = bench.run("blpop k l 2").wish.expect("nothing is there");
        assert_eq!(wish.keys, [b"k", b"l"]);
        assert_eq!(wish.timeout, Some(Duration::from_secs(2)));
        assert_eq!(wish.args[0], b"blpop");
        assert!(bench.run("set a 1").events.is_empty());
        bench.commands.tell_events(true);
        let events = bench.run("rename a b").events;
        let wanted = [("rename_from", b"a"), ("rename_to", b"b")];
        assert_eq!(events, wanted.map(|(event, key)| (0, event.to_owned(), key.to_vec())));
        let moved = bench.run("move b 3").events;
        let wanted = [(0, "move_from", b"b"), (3, "move_to", b"b")];
        assert_eq!(moved, wanted.map(|(db, event, key)| (db, event.to_owned(), key.to_vec())));
        bench.run("set b 1");
        assert!(bench.run("lpush b 1").events.is_empty(), "it has failed");
    }

    #[test]
    fn values_of_newer_servers_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = Bench::on(folder.path());
        // Version 80, and then its checksum.
        let mut payload = vec![0, 1, b'x', 80, 0];
        payload.extend_from_slice(&rdb::crc64(&payload).to_le_bytes());
        let mut restore = |payload: &[u8]| {
            let request =
                Request::new([b"restore".as_slice(), b"a", b"0", payload, b"replace"]).at(1000, 1);
            let told = |request: &Request, bench: &mut Bench| {
                bench.commands.perform(&mut bench.handle, request).unwrap().0.reply
            };
            (told(&request, &mut bench), told(&request.clone().with_known_version(), &mut bench))
        };
        let refused = b"-ERR DUMP payload version or checksum are wrong\r\n".to_vec();
        assert_eq!(restore(&payload), (refused.clone(), b"+OK\r\n".to_vec()));
        *payload.last_mut().unwrap() ^= 1;
        assert_eq!(restore(&payload), (refused.clone(), refused));
        assert_eq!(bench.run("get a").reply, b"$1\r\nx\r\n");
    }

    #[test]
    fn options_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = Bench::on(folder.path());
        assert!(bench.commands.set_option("stream-node-max-entries", "5"));
        assert!(!bench.commands.set_option("stream-node-max-entries", "many"));
        assert!(!bench.commands.set_option("appendonly", "yes"));
        for number in 1..=12 {
            bench.run(&format!("xadd x {number}-1 f v"));
        }
        assert_eq!(bench.run("xtrim x maxlen ~ 3").reply, b":5\r\n");
    }

    #[test]
    fn databases_change_places() {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = Bench::on(folder.path());
        bench.run("set a 1 px 500");
        let commands = &bench.commands;
        bench.handle.transaction(|tx| commands.swap(tx, 0, 5)).unwrap();
        let state = |db| bench.handle.read(|tx| commands.state(tx, db, b"a")).unwrap();
        let gone = KeyState { is_written: false, is_there: false, expires: None };
        let there = KeyState { is_there: true, expires: Some(1500), ..gone };
        assert_eq!([0, 5].map(state), [gone, there]);
    }

    #[test]
    fn keys_are_found_by_their_places() {
        for (words, places) in [
            ("zunionstore d 2 a b weights 1 2", &[1, 3, 4][..]),
            ("mset a 1 a 2", &[1, 3]),
            ("xread count 1 streams s t 0 0", &[4, 5]),
            ("get", &[]),
            ("ping", &[]),
        ] {
            let request = Request::new(words.split(' ').map(str::as_bytes));
            assert_eq!(request.key_places(), places, "{words}");
        }
    }
}
