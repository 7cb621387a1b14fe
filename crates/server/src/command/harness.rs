//! Commands without sockets, threads and files: on a heap in plain memory, at a time of the
//! test's choosing. For the tests here, and for fuzzing ([`crate::testing`]).

use super::{Call, Env, Notes, Run, find_whole, perform};
#[cfg(test)]
use crate::cron;
use crate::keyspace::{self, Database, Hint};
use crate::listing::Listing;
use crate::options::Options;
use crate::protocol::args::OwnedArgs;
use crate::protocol::{Limits, Protocol, Reply, RequestReader};
use crate::server::Server;
use crate::store::Facts;
use perdura::testing::TestHeap;
use std::collections::BTreeSet;

/// Bytes of a heap that strangers' commands fill.
const MOST_BYTES: u64 = 16 << 20;

/// A keyspace on a heap in plain memory.
pub struct Bench {
    pub(crate) heap: TestHeap,
    server: Server,
    pub(crate) notes: Notes,
    client: Listing,
    keyspace: u64,
    /// Milliseconds since 1970.
    pub(crate) now: u64,
}

impl Default for Bench {
    fn default() -> Self {
        Bench::new()
    }
}

impl Bench {
    /// An empty keyspace.
    pub fn new() -> Self {
        let mut heap = TestHeap::new();
        let keyspace = keyspace::open(&mut heap, 1).unwrap().unwrap();
        heap.commit();
        let address = ([127, 0, 0, 1], 0).into();
        let options = Options::new().threads(1);
        let server = Server::new(options, address, Box::new(Facts::default));
        // Of strangers' scripts many never end.
        server.runs.set_limit(200);
        Bench {
            heap,
            server,
            notes: Notes::default(),
            client: Listing::new(1, address, address),
            keyspace,
            now: 1_000_000_000_000,
        }
    }

    /// Runs a command, given as an inline request, and shows its reply's bytes with spaces for
    /// line ends.
    pub fn run(&mut self, command: &str) -> String {
        let mut reader = RequestReader::default();
        let text = format!("{command}\r\n");
        let mut bytes = text.as_bytes();
        while !bytes.is_empty() {
            reader.fill(&mut bytes).unwrap();
        }
        let request = reader.next(Limits::USUAL).unwrap().unwrap();
        let reply = self.run_args(&OwnedArgs::from(reader.args(request)));
        String::from_utf8_lossy(&reply).trim_end().replace("\r\n", " ")
    }

    fn env(&self) -> Env<'_> {
        let stats = &self.server.stats[0];
        let (server, keyspace, now) = (&self.server, self.keyspace, self.now);
        Env { last_resort: true, ..self.notes.env(server, 0, stats, keyspace, now, 1) }
    }

    fn run_args(&mut self, args: &OwnedArgs) -> Vec<u8> {
        let args = args.as_args();
        let command = find_whole(args).unwrap();
        assert!(command.takes(args.len()) && !matches!(command.run, Run::Client(_)));
        let mut bytes = Vec::new();
        let mut heap = std::mem::take(&mut self.heap);
        let out = Reply::new(&mut bytes, Protocol::Resp2).at_most(self.server.options.max_reply);
        let db = Database::new(self.keyspace, 0);
        let client = &self.client;
        let call = Call {
            tx: &mut heap,
            env: self.env(),
            db,
            client,
            args,
            out,
            may_wait: false,
            near: Hint::default(),
        };
        let done = perform::one(call, command);
        match done {
            Ok(_) => heap.commit(),
            // A full heap: the turn would answer with the error, and undo the command's writes.
            Err(_) => heap.abort(),
        }
        self.env().end(&done);
        self.server.runs.of(0).settle();
        self.heap = heap;
        bytes
    }

    /// Performs a request of any arguments, if it is a command on data that takes as many. Its reply.
    pub fn perform(&mut self, args: &[Vec<u8>]) -> Option<Vec<u8>> {
        self.perform_within(args, MOST_BYTES)
    }

    /// The same, on a heap of at most so many bytes.
    pub(crate) fn perform_within(&mut self, args: &[Vec<u8>], most: u64) -> Option<Vec<u8>> {
        self.heap.limit = most;
        let args: OwnedArgs = args.iter().map(Vec::as_slice).collect();
        let command = find_whole(args.as_args())?;
        let on_data = command.takes(args.as_args().len()) && !matches!(command.run, Run::Client(_));
        on_data.then(|| self.run_args(&args))
    }

    /// Evicts at most so many keys. Returns how many.
    #[cfg(test)]
    pub(crate) fn evict(&mut self, most: usize) -> usize {
        let mut heap = std::mem::take(&mut self.heap);
        let done = crate::eviction::evict_some(&mut heap, self.env(), most);
        heap.commit();
        self.env().end(&done);
        self.heap = heap;
        done.unwrap()
    }

    #[cfg(test)]
    pub(crate) fn set_policy(&self, policy: crate::EvictionPolicy) {
        self.server.eviction.set(policy, 1 << 24);
    }

    /// Runs commands and compares their replies.
    pub fn play(&mut self, script: &[(&str, &str)]) {
        for (command, reply) in script {
            assert_eq!(self.run(command), *reply, "{command}");
        }
        self.check();
    }

    /// Checks the keyspace, and that it reaches every block that there is.
    pub fn check(&mut self) {
        let mut seen = BTreeSet::new();
        let findings = keyspace::check(&mut self.heap, &mut |at| {
            assert!(seen.insert(at), "block {at:#x} is reached twice");
            Ok(())
        });
        findings.unwrap().unwrap();
        let live: BTreeSet<u64> = self.heap.live_blocks().into_iter().collect();
        let lost: Vec<_> = live.difference(&seen).collect();
        assert!(live == seen, "blocks that nothing leads to: {lost:x?}");
    }

    /// Puts a client on the list that waits with this command, and looks at the key once more, after the server has begun to
    /// follow a master if it `follows`. What is then said to the client.
    #[cfg(test)]
    pub(crate) fn look_again(&mut self, command: &str, follows: bool) -> Option<String> {
        use crate::waiting::{Address, Waiter, Wish};
        let args: OwnedArgs = command.split(' ').map(str::as_bytes).collect();
        let command = find_whole(args.as_args()).unwrap();
        let to = Address { worker: 0, slot: 0, id: 7 };
        let key = args.as_args().at(1).to_vec();
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let client = std::sync::Arc::new(Listing::new(7, address, address));
        let wish = Wish::new(keyspace::Kind::List, (1, 1), None);
        let protocol = Protocol::Resp2;
        self.server.waiting.add(Waiter { to, client, protocol, db: 0, command, args, wish });
        self.server.following.set_gate_of(follows);
        let mut heap = std::mem::take(&mut self.heap);
        self.notes.waits.note(0, &key);
        let done = super::blocking::serve(&mut heap, self.env(), None);
        heap.commit();
        self.env().end(&done);
        self.heap = heap;
        let told = self.notes.waits.take_deliveries().pop()?;
        Some(String::from_utf8_lossy(&told.reply).trim_end().replace("\r\n", " "))
    }

    /// The fixture of tests of exports.
    #[cfg(test)]
    pub(crate) fn saving(&mut self) -> (&mut TestHeap, &crate::save::Save, u64) {
        (&mut self.heap, &self.server.save, self.keyspace)
    }

    /// Lets replies have at most so many bytes.
    #[cfg(test)]
    pub(crate) fn limit_reply(&mut self, bytes: usize) {
        self.server.options.max_reply = bytes;
    }

    /// Lets requests, and what they make, have at most so many bytes.
    #[cfg(test)]
    pub(crate) fn limit_request(&mut self, bytes: usize) {
        self.server.options.max_request = bytes;
    }

    /// Has DUMP answer in this version of Redis's snapshots.
    #[cfg(test)]
    pub(crate) fn set_dump_version(&self, version: u16) {
        self.server.tuning.set_dump_version(version);
    }

    /// How often a key was looked up.
    #[cfg(test)]
    pub(crate) fn key_lookups(&self) -> u64 {
        let stats = &self.server.stats[0];
        stats.hits.get() + stats.misses.get()
    }

    /// Lets scripts run for so many milliseconds.
    #[cfg(test)]
    pub(crate) fn limit_script(&mut self, millis: u64) {
        self.server.runs.set_limit(millis);
    }

    /// Asks the server's threads to end.
    #[cfg(test)]
    pub(crate) fn stop_server(&self) {
        self.server.stop("a test");
    }

    /// Runs the cron until there is nothing left to do.
    #[cfg(test)]
    pub(crate) fn run_cron(&mut self) {
        let mut heap = std::mem::take(&mut self.heap);
        while cron::tidy(&mut heap, self.env()).unwrap() {
            heap.commit();
        }
        self.heap = heap;
    }
}
