//! One node's pool, and when what is done in it is durable.
//!
//! A *turn* is one round of the host's event loop: it performs the commands that have arrived, and then, before it
//! sleeps, sends their replies. Transactions commit at once, and are made durable together, by one wait, before the host
//! sends the replies ([`Node::make_durable`]). Then replies are *exposed* until the host wakes: those of commands that it
//! performs meanwhile (of clients that have waited) are sent without another moment to wait in, so each of these is made
//! durable before it is answered.

use crate::group::Group;
use crate::settings::Settings;
use crate::snapshot::Snapshots;
use crate::watch::{THRESHOLD_MIN, Watch};
use crate::work::{Contents, Job};
use corosensei::stack::DefaultStack;
use perdura::collections::Cell;
use perdura::{EngineKind, Error, Handle, Options, Pool, Result, Ticket, TxExt as _};
use perdura_server::{Commands, KeyState, Performed};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The root under which a pool has the number of its node in the cluster, as 40 digits.
const ROOT: &str = "redis-node";
/// In the state: the host's libraries of functions, as FUNCTION DUMP answers them.
pub(crate) const FUNCTIONS: &[u8] = b"functions";
/// In the state while a copy of a master replaces the node's keys.
pub(crate) const COPYING: &[u8] = b"copying";
/// Time from one look for deleted values to free to the next, and that one look may take.
const TIDY: Duration = Duration::from_millis(100);
const TIDY_MOST: Duration = Duration::from_millis(1);

/// A node's pool.
pub(crate) struct Node {
    pool: Pool,
    commands: Rc<Commands>,
    /// Both are inside of the group while there is one.
    handle: Option<Handle>,
    stack: Option<DefaultStack>,
    group: Option<Group>,
    /// The last transaction, until it is durable.
    last: Option<Ticket>,
    exposed: bool,
    /// Whether all that is done belongs together, outside of an EXEC too ([`Node::hold`]).
    held: bool,
    /// Clients of which it is known, in this turn, whether they have unread replies of earlier ones.
    known: HashSet<u64>,
    /// Whether that is known of all clients.
    all_known: bool,
    tidied: Instant,
    pub(crate) snapshots: Snapshots,
    watch: Watch,
    /// How long the host waits before it sends replies while a script runs; zero for ever.
    threshold: Duration,
    process: u32,
}

impl Node {
    /// Opens the node's pool, or makes it. An error is a sentence for the operator.
    pub(crate) fn open(settings: &Settings, id: Option<&str>) -> Result<Self, String> {
        let path = &settings.pool;
        let is_new = !path.exists();
        // A read transaction of any length delays no writer with this engine: replicas' copies are made by one.
        let options = Options::new().size(settings.size);
        let options = if is_new { options.engine(EngineKind::CcStm) } else { options };
        let pool = options.open_or_create(path).map_err(|error| error.to_string())?;
        if pool.engine() != EngineKind::CcStm {
            return Err(format!(
                "the pool {} has the engine {}, and the module needs {}: move its data into a new \
                 pool by 'perdura pool copy --engine {2}'",
                path.display(),
                pool.engine(),
                EngineKind::CcStm
            ));
        }
        let mut handle = pool.session().map_err(|error| error.to_string())?;
        let commands = Commands::open(&pool, &mut handle).map_err(|error| error.to_string())?;
        check_owner(&mut handle, settings, id)?;
        Ok(Node {
            commands: Rc::new(commands),
            handle: Some(handle),
            stack: Some(DefaultStack::default()),
            group: None,
            last: None,
            exposed: false,
            held: false,
            known: HashSet::new(),
            all_known: false,
            tidied: Instant::now(),
            snapshots: Snapshots::new().map_err(|error| error.to_string())?,
            watch: Watch::start(&pool).map_err(|error| error.to_string())?,
            threshold: Duration::ZERO,
            process: std::process::id(),
            pool,
        })
    }

    /// Whether commands tell of the events of keys.
    pub(crate) fn tell_events(&self, tells: bool) {
        self.commands.tell_events(tells);
    }

    /// Whether this is a child that the host has forked.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// Does a job: in the open transaction, if it is `grouped`, else in one of its own.
    pub(crate) fn run(&mut self, job: Job, grouped: bool) -> Result<Performed> {
        let alone = self.exposed || cfg!(feature = "planted");
        if !self.held && (!grouped || alone) {
            let (commands, handle) = self.session()?;
            let (done, ticket) = match &job {
                Job::Command(request) => commands.perform(handle, request)?,
                job => handle.submit(|tx| job.run(commands, tx))?,
            };
            self.last = self.last.max(Some(ticket));
            if alone {
                self.make_durable()?;
            }
            return Ok(done);
        }
        if self.group.is_none()
            && let (Some(handle), Some(stack)) = (self.handle.take(), self.stack.take())
        {
            self.group = Some(Group::begin(Rc::clone(&self.commands), handle, stack));
        }
        self.group.as_mut().expect("it was begun").run(job)
    }

    /// What is done from now on is one transaction, until [`release`](Self::release): a RESTORE's removal of the key's old
    /// value, and its new one.
    pub(crate) fn hold(&mut self) {
        self.held = !cfg!(feature = "planted");
    }

    /// The end of what was held together.
    pub(crate) fn release(&mut self) -> Result<()> {
        match std::mem::take(&mut self.held) && self.exposed {
            true => self.make_durable(),
            false => Ok(()),
        }
    }

    /// Whether a job could be done now: in the open transaction, if it is `grouped`, else alone. Nothing is done.
    pub(crate) fn could(&mut self, job: Job, grouped: bool) -> Result<bool> {
        if grouped && self.group.is_some() {
            let done = self.run(Job::Try(Box::new(job)), true)?;
            return Ok(done.reply.first() != Some(&b'-'));
        }
        let (commands, handle) = self.session()?;
        let attempt = |handle: &mut Handle| {
            let mut could = false;
            let done: Result<((), Ticket)> = handle.submit(|tx| {
                commands.begin();
                could = job.run(commands, tx)?.reply.first() != Some(&b'-');
                Err(Error::Aborted("it was only tried".to_owned()))
            });
            commands.end(&done);
            could
        };
        if attempt(handle) {
            return Ok(true);
        }
        while commands.tidy(handle)? {}
        Ok(attempt(handle))
    }

    /// For transactions of their own: an open one ends.
    fn session(&mut self) -> Result<(&Commands, &mut Handle)> {
        self.end_group()?;
        Ok((&self.commands, self.handle.as_mut().expect("no transaction is open")))
    }

    /// Ends the transaction of an EXEC or a script, if one is open.
    pub(crate) fn end_group(&mut self) -> Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let (handle, stack, done) = group.end();
        (self.handle, self.stack) = (Some(handle), Some(stack));
        self.last = self.last.max(Some(done?));
        Ok(())
    }

    /// Returns when all that was done is durable.
    pub(crate) fn make_durable(&mut self) -> Result<()> {
        self.end_group()?;
        let Some(ticket) = self.last.take() else { return Ok(()) };
        self.session()?.1.wait(ticket)?;
        self.watch.end();
        Ok(())
    }

    /// Whether something was done that is not known to be durable.
    fn is_behind(&self) -> bool {
        self.last.is_some() || self.group.is_some()
    }

    /// Whether the host may send replies without another moment to wait in.
    pub(crate) fn is_exposed(&self) -> bool {
        self.exposed
    }

    /// The host is about to send the turn's replies, and to sleep.
    pub(crate) fn end_turn(&mut self) -> Result<()> {
        self.held = false;
        self.make_durable()?;
        self.exposed = true;
        self.forget_clients();
        if self.tidied.elapsed() >= TIDY {
            let began = Instant::now();
            let (commands, handle) = self.session()?;
            while commands.tidy(handle)? && began.elapsed() < TIDY_MOST {}
            self.tidied = Instant::now();
        }
        Ok(())
    }

    /// The host has slept.
    pub(crate) fn begin_turn(&mut self) {
        self.exposed = false;
    }

    /// Until the host sleeps it may send replies at any moment: each is made durable before it is given.
    pub(crate) fn expose(&mut self) -> Result<()> {
        self.make_durable()?;
        self.exposed = true;
        Ok(())
    }

    /// Gives an option of the host's to the commands.
    pub(crate) fn set_option(&self, name: &str, value: &str) {
        // One that they do not have is none of theirs.
        self.commands.set_option(name, value);
    }

    /// How long the host waits before it sends replies while a script runs; zero for ever.
    pub(crate) fn set_threshold(&mut self, threshold: Duration) {
        self.threshold = threshold;
    }

    /// A script begins, or an EXEC that may have one. If it runs for long, the host sends the replies of this turn before
    /// the turn's end.
    pub(crate) fn begin_script(&mut self) -> Result<()> {
        self.forget_clients();
        if self.threshold != Duration::ZERO && self.threshold < THRESHOLD_MIN {
            return self.make_durable();
        }
        self.end_group()?;
        if let Some(last) = self.last {
            self.watch.begin(last);
        }
        Ok(())
    }

    /// Whether a command is about to tell what is not durable to a client (`None`: to an unknown one) of which it is not
    /// known whether it has unread replies of earlier turns. It is known from now on.
    pub(crate) fn meets(&mut self, client: Option<u64>, writes: bool) -> bool {
        if self.exposed || self.all_known || !(writes || self.is_behind()) {
            return false;
        }
        match client {
            Some(client) => self.known.insert(client),
            None => !std::mem::replace(&mut self.all_known, true),
        }
    }

    /// What was known of clients may have changed.
    pub(crate) fn forget_clients(&mut self) {
        self.known.clear();
        self.all_known = false;
    }

    /// Keeps a part of the state, or, without a value, drops it.
    pub(crate) fn keep(&mut self, name: &'static [u8], value: Option<&[u8]>) -> Result<()> {
        let job = Job::Keep { name, value: value.map(<[u8]>::to_vec) };
        let grouped = self.group.is_some();
        self.run(job, grouped).map(drop)
    }

    /// A part of the state.
    pub(crate) fn kept(&mut self, name: &'static [u8]) -> Result<Option<Vec<u8>>> {
        let grouped = self.group.is_some();
        let done = self.run(Job::Kept(name), grouped)?;
        Ok(done.changed.then_some(done.reply))
    }

    /// A child was forked, at a moment without an open command.
    pub(crate) fn forked(&mut self) -> Result<()> {
        self.end_group()?;
        self.snapshots.serve(&self.pool);
        Ok(())
    }

    /// A key's contents.
    pub(crate) fn contents(&mut self, db: u8, key: &[u8]) -> Result<Contents> {
        if self.group.is_some() {
            // An EXEC that has DUMP stays one transaction.
            let done = self.run(Job::Read { db, key: key.to_vec() }, true)?;
            return Ok(Contents::of(&done));
        }
        let (commands, handle) = self.session()?;
        handle.read(|tx| Contents::read(commands, tx, db, key))
    }

    /// All keys, each with its database.
    pub(crate) fn keys(&mut self) -> Result<Vec<(u8, Vec<u8>, KeyState)>> {
        let (commands, handle) = self.session()?;
        handle.read(|tx| {
            let mut keys = Vec::new();
            commands
                .for_each_key(tx, &mut |db, key, state| keys.push((db, key.to_vec(), state)))?;
            Ok(keys)
        })
    }
}

/// Refuses the pool of another node; a pool without an owner gets this one.
fn check_owner(handle: &mut Handle, settings: &Settings, id: Option<&str>) -> Result<(), String> {
    let own = id.and_then(digits).unwrap_or_default();
    let checked = handle.transaction(|tx| {
        let owner = tx.open_or_create::<Cell<[u64; 5]>>(ROOT)?;
        let found = owner.get(tx)?;
        if found == own || settings.adopt || found == [0; 5] {
            owner.set(tx, own)?;
            return Ok(None);
        }
        Ok(Some(found))
    });
    match checked {
        Ok(None) => Ok(()),
        Ok(Some(found)) => Err(format!(
            "the pool {} belongs to node {}, and this is {}: give this node its own pool, or, if \
             its data is to be served here, the argument 'adopt'",
            settings.pool.display(),
            text(found),
            id.map_or("no node of a cluster".to_owned(), |id| format!("node {id}")),
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// The 40 digits of a node's number in words.
fn digits(id: &str) -> Option<[u64; 5]> {
    let bytes: &[u8; 40] = id.as_bytes().get(..40)?.try_into().ok()?;
    let mut words = [0; 5];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

fn text(words: [u64; 5]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

// With the planted fault nothing is done together.
#[cfg(all(test, not(feature = "planted")))]
mod tests {
    use super::*;
    use perdura_server::Request;

    fn node(folder: &std::path::Path) -> Node {
        let pool = folder.join("a.pool");
        let settings = Settings { pool, size: 8 << 20, adopt: false, partial: false };
        Node::open(&settings, None).unwrap()
    }

    fn command(words: &str) -> Job {
        Job::Command(Request::new(words.split(' ').map(str::as_bytes)))
    }

    /// What another session sees of some keys.
    fn seen(node: &Node, words: &str) -> Vec<u8> {
        let (pool, words) = (node.pool.clone(), words.to_owned());
        let seen = std::thread::spawn(move || {
            let mut handle = pool.session().unwrap();
            let commands = Commands::open(&pool, &mut handle).unwrap();
            let request = Request::new(words.split(' ').map(str::as_bytes));
            commands.perform(&mut handle, &request).unwrap().0.reply
        });
        seen.join().unwrap()
    }

    #[test]
    fn an_exec_that_asks_for_contents_stays_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut node = node(folder.path());
        node.run(command("set a 1"), true).unwrap();
        let contents = node.contents(0, b"a").unwrap();
        assert!(!contents.payload.is_empty());
        assert_eq!(node.kept(COPYING).unwrap(), None);
        node.keep(COPYING, Some(b"x")).unwrap();
        assert_eq!(node.kept(COPYING).unwrap().as_deref(), Some(&b"x"[..]));
        // What is only tried leaves nothing, whether it fits or not.
        let large = Contents { payload: vec![0; 100], expires: 0 };
        assert!(!node.could(large.restore(0, b"c"), true).unwrap());
        assert!(node.could(contents.restore(0, b"c"), true).unwrap());
        assert!(!node.could(command(&format!("set c {}", "v".repeat(9 << 20))), true).unwrap());
        assert_eq!(node.run(command("exists a c"), true).unwrap().reply, b":1\r\n");
        node.run(command("set b 1"), true).unwrap();
        assert_eq!(seen(&node, "exists a b c"), b":0\r\n");
        node.make_durable().unwrap();
        assert_eq!(seen(&node, "exists a b c"), b":2\r\n");
        assert!(node.kept(COPYING).unwrap().is_some());
    }

    #[test]
    fn what_is_held_together_is_one_transaction() {
        let folder = tempfile::tempdir().unwrap();
        let mut node = node(folder.path());
        node.run(command("set a 1"), false).unwrap();
        let contents = node.contents(0, b"a").unwrap();
        for exposed in [false, true] {
            node.exposed = exposed;
            node.run(command("set a old"), false).unwrap();
            node.hold();
            node.run(Job::Remove { db: 0, key: b"a".to_vec() }, false).unwrap();
            assert_eq!(seen(&node, "get a"), b"$3\r\nold\r\n");
            node.run(contents.restore(0, b"a"), false).unwrap();
            assert_eq!(seen(&node, "get a"), b"$3\r\nold\r\n");
            node.release().unwrap();
            assert_eq!(node.is_behind(), !exposed);
            node.end_group().unwrap();
            assert_eq!(seen(&node, "get a"), b"$1\r\n1\r\n");
        }
    }
}
