//! The scripts that are running, one in each thread at most: which of them are to end, and which have run for long.
//!
//! A script goes through up to three phases:
//! 1. At first nobody is told of it.
//! 2. After [`WHILE`] it is *long*. If its transaction excludes other writers, other threads begin none that writes, and wait
//!    with their clients' requests ([`Runs::has_long_beside`]). Threads that wait for the writers' lock by then would be
//!    deaf until the script's end, and clients whose requests are in the same turn would get no answer. Then its transaction
//!    is given up ([`Late::Again`]): the turn ends without it, and the next one has nothing else.
//! 3. After `busy-reply-threshold` it is *overdue*: all clients but its own are told that the server is busy
//!    ([`Runs::busy`]), until it ends by itself or is killed.
//!
//! Nothing that a script does is seen before its transaction commits, so that it can be killed at any moment, whatever it
//! has written.

use crate::protocol::Args;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::warn;

/// After so long a script is long, or after half of the time after which it is overdue.
const WHILE: Duration = Duration::from_millis(100);
/// How soon a long script looks again whether another thread waits for the lock.
const SOON: Duration = Duration::from_millis(1);
/// How often one script's transaction begins again for others.
const AGAIN_MAX: u32 = 3;
/// How long a transaction that begins again waits for those of others at most.
const LET_IN: Duration = Duration::from_millis(100);
/// Arguments of a running function that are kept, and bytes of each, to be shown.
const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_BYTES: usize = 128;

const NOTHING: u8 = 0;
const SCRIPT: u8 = 1;
const FUNCTION: u8 = 2;
const KILLED: u8 = 3;

/// What runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Script,
    Function,
}

impl Sort {
    fn state(self) -> u8 {
        match self {
            Sort::Script => SCRIPT,
            Sort::Function => FUNCTION,
        }
    }
}

/// Why clients are refused: a script or a function is overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy(pub(crate) Sort);

impl Busy {
    /// Redis's error.
    pub(crate) fn text(self) -> &'static str {
        match self.0 {
            Sort::Script => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
            }
            Sort::Function => {
                "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
            }
        }
    }
}

/// What came of SCRIPT KILL, or FUNCTION KILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killing {
    Done,
    /// Only scripts of the other sort are running.
    Not(Busy),
    /// Nothing is running.
    Idle,
}

/// A function that runs, as FUNCTION STATS shows it.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) name: Vec<u8>,
    /// The command that runs it, shortened.
    pub(crate) command: Vec<Vec<u8>>,
    pub(crate) began: Instant,
    /// How many libraries and functions there are.
    pub(crate) counts: (u64, u64),
}

impl Running {
    pub(crate) fn new(name: &[u8], command: Args<'_>, counts: (u64, u64)) -> Self {
        let shortened = |arg: &[u8]| arg[..arg.len().min(ARGUMENT_BYTES)].to_vec();
        let command = command.iter().take(ARGUMENTS_MAX).map(shortened).collect();
        Running { name: name.to_vec(), command, began: Instant::now(), counts }
    }
}

/// What a script that has run for a while is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// It goes on, and asks again at this time.
    Until(Instant),
    /// It goes on; meanwhile the thread looks after its other clients.
    Overdue,
    /// Its transaction is given up, and is to begin again when others were let in and answered.
    Again,
}

/// What all threads look at.
#[derive(Default)]
struct Shared {
    /// Scripts that are overdue.
    overdue: AtomicUsize,
    /// Threads whose script is long.
    long: AtomicUsize,
    /// Threads that wait in [`Runs::await_writers`].
    waiting: AtomicUsize,
}

/// The scripts that are running.
pub(crate) struct Runs {
    threads: Box<[Arc<Run>]>,
    shared: Arc<Shared>,
    /// Whether one transaction at a time writes.
    exclusive: AtomicBool,
    /// Milliseconds after which every script is ended, for tests of scripts that never end; 0 if none is.
    limit: AtomicU64,
}

/// One thread's script.
pub(crate) struct Run {
    state: AtomicU8,
    /// The number of the client whose script was killed in the transaction under way: in a transaction that runs again
    /// after a conflict, it is killed again.
    killed: AtomicU64,
    /// Whether the server is to end.
    stopping: AtomicBool,
    /// How many scripts the thread has run.
    pub(crate) count: AtomicU64,
    /// Whether the thread is in a transaction that writes, or waits to begin one.
    writing: AtomicBool,
    /// Whether the transaction is given up, to begin again.
    again: AtomicBool,
    shared: Arc<Shared>,
    own: Mutex<Own>,
}

/// The part of it that seldom changes, and never while a short script runs.
#[derive(Default)]
struct Own {
    is_long: bool,
    is_overdue: bool,
    /// How often the transaction was given up.
    times: u32,
    /// The function that is overdue.
    running: Option<Running>,
}

impl Runs {
    pub(crate) fn new(threads: usize) -> Self {
        let shared = Arc::<Shared>::default();
        let run = |_| Arc::new(Run::new(Arc::clone(&shared)));
        Runs {
            threads: (0..threads).map(run).collect(),
            shared: Arc::clone(&shared),
            exclusive: AtomicBool::new(true),
            limit: AtomicU64::new(0),
        }
    }

    /// Ends every script after so many milliseconds.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn set_limit(&self, millis: u64) {
        self.limit.store(millis, Ordering::Relaxed);
    }

    pub(super) fn limit(&self) -> Option<Duration> {
        let millis = self.limit.load(Ordering::Relaxed);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// Says whether one transaction at a time writes: that is so unless it is said.
    pub(crate) fn set_exclusive(&self, exclusive: bool) {
        self.exclusive.store(exclusive, Ordering::Relaxed);
    }

    pub(crate) fn of(&self, worker: usize) -> &Arc<Run> {
        &self.threads[worker]
    }

    /// Ends all scripts of this sort that are running.
    pub(crate) fn kill(&self, sort: Sort) -> Killing {
        let kill = |run: &&Arc<Run>| {
            let (from, to) = (sort.state(), KILLED);
            run.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        if self.threads.iter().filter(kill).count() > 0 {
            return Killing::Done;
        }
        let other = match sort {
            Sort::Script => Sort::Function,
            Sort::Function => Sort::Script,
        };
        let is_other = |run: &Arc<Run>| run.state.load(Ordering::Acquire) == other.state();
        match self.threads.iter().any(is_other) {
            true => Killing::Not(Busy(other)),
            false => Killing::Idle,
        }
    }

    /// Lets no script run for long any more: the server is to end.
    pub(crate) fn stop(&self) {
        self.threads.iter().for_each(|run| run.stopping.store(true, Ordering::Release));
    }

    /// Whether a script is overdue, so that clients are refused.
    #[inline]
    pub(crate) fn busy(&self) -> Option<Busy> {
        match self.shared.overdue.load(Ordering::Relaxed) {
            0 => None,
            _ => self.overdue(),
        }
    }

    #[cold]
    fn overdue(&self) -> Option<Busy> {
        let mut found = None;
        for run in &self.threads {
            let own = run.own();
            if own.is_overdue {
                match own.running {
                    Some(_) => found = Some(Busy(Sort::Function)),
                    None => return Some(Busy(Sort::Script)),
                }
            }
        }
        found
    }

    /// The function that is overdue.
    pub(crate) fn running(&self) -> Option<Running> {
        self.threads.iter().find_map(|run| run.own().running.clone())
    }

    /// Whether another thread's script is long: then a transaction that writes would wait for it.
    #[inline]
    pub(crate) fn has_long_beside(&self, worker: usize) -> bool {
        match self.shared.long.load(Ordering::Relaxed) {
            0 => false,
            long => long > usize::from(self.of(worker).own().is_long),
        }
    }

    /// A script of a thread has run until `now`; it began at `began`, and is overdue after `most`. `running` makes the
    /// description of a function.
    pub(crate) fn late(
        &self,
        worker: usize,
        (began, now): (Instant, Instant),
        most: Option<Duration>,
        others_are_owed: &dyn Fn() -> bool,
        running: &dyn Fn() -> Option<Running>,
    ) -> Late {
        let run = self.of(worker);
        let mut own = run.own();
        let ran = now.saturating_duration_since(began);
        if own.is_overdue {
            return Late::Overdue;
        }
        if ran >= first_after(most) {
            let excludes = self.exclusive.load(Ordering::Relaxed) && run.is_writing();
            if excludes && !own.is_long {
                own.is_long = true;
                self.shared.long.fetch_add(1, Ordering::Relaxed);
            }
            let is_awaited = run.is_writing() && self.shared.waiting.load(Ordering::Relaxed) > 0;
            let others_wait = is_awaited || excludes && self.others_write(worker);
            if others_wait && own.times < AGAIN_MAX || own.times == 0 && others_are_owed() {
                own.times += 1;
                run.again.store(true, Ordering::Relaxed);
                return Late::Again;
            }
        }
        match most {
            Some(most) if ran >= most => {
                (own.is_overdue, own.running) = (true, running());
                self.shared.overdue.fetch_add(1, Ordering::Relaxed);
                warn!(
                    millis = u64::try_from(ran.as_millis()).unwrap_or(u64::MAX),
                    "a script is still running: clients are told BUSY until it ends, or SCRIPT KILL or FUNCTION KILL ends it"
                );
                Late::Overdue
            }
            _ => Late::Until(now + SOON),
        }
    }

    fn others_write(&self, worker: usize) -> bool {
        let others = self.threads.iter().enumerate().filter(|(index, _)| *index != worker);
        others.map(|(_, run)| run).any(|run| run.is_writing())
    }

    /// Waits until each of these threads but `worker` was not in a transaction that writes.
    ///
    /// # Errors
    /// When the script of such a transaction is overdue.
    pub(crate) fn await_writers(
        &self,
        worker: usize,
        of: impl Fn(usize) -> bool,
    ) -> Result<(), Busy> {
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let others = self.threads.iter().enumerate();
        let done =
            others.filter(|(index, _)| *index != worker && of(*index)).try_for_each(|(_, run)| {
                while run.writing.load(Ordering::SeqCst) {
                    if let Some(busy) = self.busy() {
                        return Err(busy);
                    }
                    std::thread::sleep(SOON / 10);
                }
                Ok(())
            });
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// Waits until other threads that wait for the writers' lock have had it.
    pub(crate) fn let_in(&self, worker: usize) {
        let began = Instant::now();
        while self.others_write(worker) && began.elapsed() < LET_IN {
            std::thread::sleep(SOON / 10);
        }
    }
}

/// When a script is to ask for the first time what it is to do.
pub(crate) fn first_after(most: Option<Duration>) -> Duration {
    most.map_or(WHILE, |most| WHILE.min(most / 2))
}

/// A thread is in a transaction that writes, until this is dropped.
pub(crate) struct WritingThread<'a>(&'a Run);

impl Drop for WritingThread<'_> {
    fn drop(&mut self) {
        self.0.writing.store(false, Ordering::Release);
    }
}

impl Run {
    fn new(shared: Arc<Shared>) -> Self {
        Run {
            state: AtomicU8::new(NOTHING),
            killed: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            count: AtomicU64::new(0),
            writing: AtomicBool::new(false),
            again: AtomicBool::new(false),
            shared,
            own: Mutex::default(),
        }
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread begins a transaction that writes. Before it looks at [`Pause`](crate::pause::Pause), whose command first
    /// sets the pause, and then looks at this: one of the two sees the other.
    #[inline]
    pub(crate) fn write(&self) -> WritingThread<'_> {
        self.writing.store(true, Ordering::SeqCst);
        WritingThread(self)
    }

    fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Relaxed)
    }

    /// A script of this client begins.
    pub(crate) fn begin(&self, client: u64, sort: Sort) {
        let is_killed = self.killed.load(Ordering::Relaxed) == client;
        self.state.store(if is_killed { KILLED } else { sort.state() }, Ordering::Release);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// It has ended; `was_late` says whether it has asked what to do. Returns whether it was killed, which is remembered
    /// until the transaction is over.
    pub(crate) fn end(&self, client: u64, was_late: bool) -> bool {
        let is_killed = self.state.swap(NOTHING, Ordering::AcqRel) == KILLED;
        if is_killed {
            self.killed.store(client, Ordering::Relaxed);
        }
        if was_late {
            let mut own = self.own();
            if std::mem::take(&mut own.is_overdue) {
                self.shared.overdue.fetch_sub(1, Ordering::Relaxed);
            }
            own.running = None;
            if !self.again.load(Ordering::Relaxed) {
                own.times = 0;
                self.end_long(&mut own);
            }
        }
        is_killed
    }

    fn end_long(&self, own: &mut Own) {
        if std::mem::take(&mut own.is_long) {
            self.shared.long.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether the transaction that was just run was given up for the sake of others ([`Late::Again`]).
    #[inline]
    pub(crate) fn takes_again(&self) -> bool {
        self.again.load(Ordering::Relaxed) && self.again.swap(false, Ordering::Relaxed)
    }

    /// The transaction is over.
    pub(crate) fn settle(&self) {
        self.killed.store(0, Ordering::Relaxed);
        if self.shared.long.load(Ordering::Relaxed) > 0 {
            self.settle_long();
        }
    }

    #[cold]
    fn settle_long(&self) {
        let own = &mut *self.own();
        self.end_long(own);
        own.times = 0;
    }

    /// Whether a script of this thread is running, whose commands these are.
    pub(crate) fn is_running(&self) -> bool {
        self.state.load(Ordering::Acquire) != NOTHING
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.state.load(Ordering::Acquire) == KILLED
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
