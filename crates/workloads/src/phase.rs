//! Threads that work at the same time, each on its share, and their measurements together.

use crate::latency::{self, Recorder};
use crate::pace::Pace;
use crate::random::{Random, splitmix64};
use crate::{Failure, Measured, Outcome, Plan, Progress, Share};
use hdrhistogram::Histogram;
use perdura::Counters;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// A part of a run, in which all threads work at once.
pub(crate) struct Phase<'a> {
    plan: &'a Plan,
    /// All threads together.
    operations: u64,
    /// The stream of the first thread; the others have those after it.
    first_stream: u64,
    kinds: &'static [&'static str],
    progress: &'a Progress,
}

impl<'a> Phase<'a> {
    /// The operations before the measured ones.
    pub(crate) fn warm_up(
        plan: &'a Plan,
        kinds: &'static [&'static str],
        progress: &'a Progress,
    ) -> Self {
        Phase { plan, operations: plan.warm_up, first_stream: 1 << 32, kinds, progress }
    }

    /// The measured operations.
    pub(crate) fn measured(
        plan: &'a Plan,
        kinds: &'static [&'static str],
        progress: &'a Progress,
    ) -> Self {
        Phase { plan, operations: plan.operations, first_stream: 0, kinds, progress }
    }

    /// Each thread opens the store by `open`, before any of them begins, and does its share by `work`,
    /// which returns the engine's counters.
    ///
    /// # Errors
    /// The first of several threads' failures.
    pub(crate) fn run<H>(
        &self,
        open: impl Fn() -> Outcome<H> + Sync,
        work: impl Fn(&mut H, Share, &mut Recorder<'_>) -> Outcome<Counters> + Sync,
    ) -> Outcome<Measured> {
        let part = |thread: usize, ready: &Barrier| self.thread(thread, ready, &open, &work);
        Ok(sum(on_threads(self.plan.threads, &part)?, self.kinds))
    }

    fn share(&self, thread: usize) -> Share {
        let random = Random::new(self.plan.seed, self.first_stream + thread as u64);
        let threads = self.plan.threads;
        let mut share = Share { thread, threads, operations: self.operations, random };
        let part = share.part_of(self.operations);
        share.operations = part.end - part.start;
        share
    }

    fn recorder(&self, thread: usize) -> Recorder<'a> {
        let Phase { plan, kinds, progress, .. } = *self;
        let seed = plan.seed ^ thread as u64;
        let every = if plan.per_second.is_some() { 1 } else { plan.sample_every };
        let recorder = Recorder::new(kinds.len(), every, seed, progress);
        match plan.per_second {
            Some(rate) => recorder.paced(Pace::new(rate, plan.threads, splitmix64(seed))),
            None => recorder,
        }
    }

    fn thread<H>(
        &self,
        thread: usize,
        ready: &Barrier,
        open: &impl Fn() -> Outcome<H>,
        work: &impl Fn(&mut H, Share, &mut Recorder<'_>) -> Outcome<Counters>,
    ) -> Outcome<ThreadResult> {
        let hand = open();
        let mut recorder = self.recorder(thread);
        let pinned = if self.plan.pinned { pin(thread) } else { Ok(()) };
        // Before anything that can fail: other threads wait at this barrier.
        ready.wait();
        pinned?;
        let mut hand = hand?;
        let start = Instant::now();
        let counters = work(&mut hand, self.share(thread), &mut recorder)?;
        let end = Instant::now();
        let (operations, histograms) = recorder.finish();
        Ok(ThreadResult { operations, histograms, counters, start, end })
    }
}

struct ThreadResult {
    operations: u64,
    histograms: Vec<Histogram<u64>>,
    counters: Counters,
    start: Instant,
    end: Instant,
}

/// Runs `part` on this many threads. Compiled once: threads take more code than most workloads.
fn on_threads(
    count: usize,
    part: &(dyn Fn(usize, &Barrier) -> Outcome<ThreadResult> + Sync),
) -> Outcome<Vec<ThreadResult>> {
    let ready = &Barrier::new(count);
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..count).map(|thread| scope.spawn(move || part(thread, ready))).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let mut done = Vec::with_capacity(results.len());
    for result in results {
        done.push(result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
    }
    Ok(done)
}

/// Binds the calling thread to the `index`th of the processors that it may run on.
fn pin(index: usize) -> Outcome {
    let failed = |errno| Failure::Parameters(format!("threads cannot be bound: {errno}"));
    let allowed = sched_getaffinity(None).map_err(failed)?;
    let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let mut one = CpuSet::new();
    one.set(all[index % all.len()]);
    sched_setaffinity(None, &one).map_err(failed)
}

fn sum(threads: Vec<ThreadResult>, kinds: &'static [&'static str]) -> Measured {
    let mut counters = Counters::default();
    let mut operations = 0;
    for thread in &threads {
        counters += thread.counters;
        operations += thread.operations;
    }
    let start = threads.iter().map(|thread| thread.start).min();
    let end = threads.iter().map(|thread| thread.end).max();
    let elapsed = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
    let histograms: Vec<_> = threads.into_iter().map(|thread| thread.histograms).collect();
    let overall = latency::overall(&histograms);
    let latencies = latency::summarise(kinds, histograms);
    let (sizes, counts) = (Vec::new(), Vec::new());
    Measured { operations, elapsed, latencies, overall, counters, sizes, counts }
}
