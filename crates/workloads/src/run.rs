//! Runs a workload: load, warm up, measure, check.

use crate::latency::{Latencies, Recorder};
use crate::phase::Phase;
use crate::random::Random;
use crate::reuse::Reuse;
use crate::session::{Session, Store, Submit};
use crate::window::Windows;
use perdura::Counters;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Why a workload did not end well.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A transaction failed.
    #[error(transparent)]
    Heap(#[from] perdura::Error),
    /// The data differ from those that the workload left there: a durable heap's worst fault.
    #[error("wrong answer: {0}")]
    Wrong(String),
    /// The run was to end before the data was loaded.
    #[error("stopped")]
    Stopped,
    /// A remote store failed.
    #[error("{0}")]
    Remote(String),
    /// SQLite has refused a statement.
    #[cfg(feature = "sqlite")]
    #[error("SQLite: {0}")]
    Sql(#[from] rusqlite::Error),
    /// The workload cannot run with these parameters.
    #[error("{0}")]
    Parameters(String),
}

/// The text of `Display`, which `main` and `unwrap` print.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Failure {
    /// Shorthand for [`Failure::Wrong`].
    #[cold]
    pub fn wrong(what: impl Into<String>) -> Self {
        Failure::Wrong(what.into())
    }
}

/// A result of a workload.
pub type Outcome<T = ()> = Result<T, Failure>;

/// How far a run is, and whether it should end early. Shared with its watcher.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    done: Arc<AtomicU64>,
    stopped: Arc<AtomicBool>,
}

impl Progress {
    /// A progress that ends early once `stopped` is true, which a signal handler may set.
    pub fn stopped_by(stopped: Arc<AtomicBool>) -> Self {
        Progress { done: Arc::default(), stopped }
    }

    /// Adds records that a load has made.
    ///
    /// # Errors
    /// `Stopped` once the run is to end: half a load is of no use.
    pub fn loaded(&self, records: u64) -> Outcome {
        self.advance(records);
        if self.is_stopped() { Err(Failure::Stopped) } else { Ok(()) }
    }

    /// Adds to the records or operations done.
    pub fn advance(&self, by: u64) {
        self.done.fetch_add(by, Ordering::Relaxed);
    }

    /// Records or operations done since the last [`restart`](Progress::restart).
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Starts counting from zero.
    pub fn restart(&self) {
        self.done.store(0, Ordering::Relaxed);
    }

    /// Asks the threads to end after their current operation.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the run is to end.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// How to run a workload.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Threads.
    pub threads: usize,
    /// Measured operations, all threads together.
    pub operations: u64,
    /// Operations before those, not measured, all threads together.
    pub warm_up: u64,
    /// The root of everything random.
    pub seed: u64,
    /// One operation in this many is timed; 0: none.
    pub sample_every: u32,
    /// An open loop: operations a second, all threads together, each timed from when it was due.
    /// `None` for a closed loop, in which each begins when the one before has ended.
    pub per_second: Option<f64>,
    /// Binds each thread to a processor of its own, if there are enough.
    pub pinned: bool,
    /// The maximum number of transactions of a thread that are unacknowledged, the running one included: see
    /// [`window`](crate::window). 1 for a thread that waits for each; an open loop must have 1.
    pub window: usize,
}

impl Plan {
    fn validate(&self) -> Outcome {
        if self.window > 1 && self.per_second.is_some() {
            let what = "an open loop begins operations when they are due, whatever is unanswered: \
                        leave out the rate, or choose a window of 1";
            return Err(Failure::Parameters(what.to_owned()));
        }
        Ok(())
    }
}

/// One thread's part of a run.
#[derive(Clone, Debug)]
pub struct Share {
    /// Which thread, from 0.
    pub thread: usize,
    /// Of how many.
    pub threads: usize,
    /// Operations to do.
    pub operations: u64,
    /// The thread's own stream.
    pub random: Random,
}

impl Share {
    /// This thread's part of `0..total`: parts are disjoint and cover it.
    pub fn part_of(&self, total: u64) -> std::ops::Range<u64> {
        let cut = |thread: usize| total * thread as u64 / self.threads as u64;
        cut(self.thread)..cut(self.thread + 1)
    }
}

/// A program that transacts, and knows the right result.
pub trait Workload: Sync {
    /// The kinds of operations, for the latency table.
    const KINDS: &'static [&'static str];

    /// Whether it is a program that ends when its input is used up: it runs once, without a warm-up, and does as many
    /// operations as that takes, whatever the plan says.
    const ENDS: bool = false;

    /// Whether native benchmarks compile its transactions for each engine, so that no access is dispatched at run time:
    /// for workloads whose native times are compared. Each takes minutes to build; the others are compiled once.
    const STATIC: bool = false;

    /// Whether native benchmarks run it through a pool's handle, as programs do: compiled once more, with words of `redo`
    /// and `ccstm` read and written in place.
    const BY_HANDLE: bool = false;

    /// Whether a simulated machine may run it on one core only: it holds locks of the operating system across accesses,
    /// and cores take turns on one thread.
    const ONE_CORE: bool = false;

    /// Whether some of its transactions are rolled back after they have stored, which the engine must support.
    fn rolls_back(&self) -> bool {
        false
    }

    /// Records that [`load`](Workload::load) makes, for a progress bar.
    fn load_size(&self) -> u64;

    /// Makes the initial data in a heap that does not have it.
    ///
    /// # Errors
    /// As the transactions, or if the data is there already.
    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome;

    /// Does one thread's share of the operations, each through `recorder`.
    ///
    /// # Errors
    /// As the transactions, or if a read returned something else than was written.
    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome;

    /// Compares all data with the threads' work; no thread is running.
    ///
    /// # Errors
    /// `Wrong` where they differ.
    fn check<S: Session>(&self, session: &mut S) -> Outcome;

    /// The threads' counters so far, by name, besides the kinds of operations.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// How often each object in the heap is used by one thread's `operations`, drawn from `seed`, after loading: for
    /// workloads that can tell.
    ///
    /// # Errors
    /// As [`load`](Workload::load) and [`run_thread`](Workload::run_thread).
    fn reuse<S: Session>(
        &self,
        session: &mut S,
        operations: u64,
        seed: u64,
        progress: &Progress,
    ) -> Option<Outcome<Reuse>> {
        let _ = (session, operations, seed, progress);
        None
    }

    /// How large the loaded data is, by name.
    fn sizes(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// The measurements of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Operations done: less than planned if it was stopped.
    pub operations: u64,
    /// From the first thread's start to the last one's end.
    pub elapsed: Duration,
    /// Latencies of the kinds that occurred.
    pub latencies: Vec<Latencies>,
    /// Latencies of all kinds together, if any was timed.
    pub overall: Option<Latencies>,
    /// The engine's counters.
    pub counters: Counters,
    /// The workload's sizes: see [`Workload::sizes`].
    pub sizes: Vec<(&'static str, u64)>,
    /// The workload's counters: see [`Workload::counts`].
    pub counts: Vec<(&'static str, u64)>,
}

impl Measured {
    /// Wall time for each operation, all threads together, in nanoseconds.
    pub fn ns_per_operation(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.operations.max(1) as f64
    }

    /// Operations in a second, all threads together.
    pub fn per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Loads the workload's data.
///
/// # Errors
/// As [`Workload::load`].
pub fn load<W: Workload, S: Store + ?Sized>(
    workload: &W,
    store: &S,
    progress: &Progress,
) -> Outcome {
    progress.restart();
    workload.load(&mut store.session()?, progress)
}

/// Warms up, then measures. Call [`Workload::check`] afterwards.
///
/// # Errors
/// As [`Workload::run_thread`]; the first of several threads' failures. `Parameters` if the plan
/// contradicts itself.
pub fn measure<W: Workload, S: ?Sized + Store<Session: Submit>>(
    workload: &W,
    store: &S,
    plan: &Plan,
    progress: &Progress,
) -> Outcome<Measured> {
    plan.validate()?;
    // Also for a window of 1: everything is compiled once, and measured in the same way.
    let store = &Windows::new(store, plan.window);
    progress.restart();
    if plan.warm_up > 0 && !W::ENDS {
        phase(workload, store, &Phase::warm_up(plan, W::KINDS, progress))?;
    }
    let before = workload.counts();
    let mut measured = phase(workload, store, &Phase::measured(plan, W::KINDS, progress))?;
    measured.counts = counted_since(workload, &before);
    measured.sizes = workload.sizes();
    Ok(measured)
}

/// The workload's counters since they were `before`.
pub fn counted_since<W: Workload>(
    workload: &W,
    before: &[(&'static str, u64)],
) -> Vec<(&'static str, u64)> {
    let now = workload.counts().into_iter();
    now.zip(before).map(|((name, count), (_, before))| (name, count - before)).collect()
}

/// Does one thread's share of the operations, and waits until all of it is durable.
///
/// # Errors
/// As [`Workload::run_thread`] and [`Session::finish`].
pub fn work<W: Workload, S: Session>(
    workload: &W,
    session: &mut S,
    share: Share,
    recorder: &mut Recorder<'_>,
) -> Outcome {
    recorder.answered_by(session.answers());
    workload.run_thread(session, share, recorder)?;
    Ok(session.finish()?)
}

fn phase<W: Workload, S: Store>(workload: &W, store: &S, phase: &Phase<'_>) -> Outcome<Measured> {
    phase.run(
        || Ok(store.session()?),
        |session, share, recorder| {
            work(workload, session, share, recorder)?;
            Ok(session.counters())
        },
    )
}
