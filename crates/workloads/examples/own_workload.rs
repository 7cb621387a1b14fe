//! A workload of one's own, on a file with several engines, and on a simulated machine.
//!
//! It needs no change to this project: another program depends on `perdura-workloads` and `perdura-machine`. An engine of one's
//! own is another type in place of `RedoEngine`: `crates/crashtest/examples/own_engine.rs` has one.

use perdura::collections::HashMap;
use perdura::{Engine, Format, Heap, Mapped, RedoEngine, TxExt, UndoEngine};
use perdura_machine::{Keep, Machine, presets};
use perdura_memory::{MapOptions, PAGE};
use perdura_workloads::random::Random;
use perdura_workloads::{
    Failure, Outcome, Plan, Progress, Recorder, Session, Share, Workload, load, measure, work,
};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Likes are added to random posts.
struct Likes {
    posts: u64,
    given: AtomicU64,
}

type Posts = HashMap<u64, u64>;

impl Workload for Likes {
    const KINDS: &'static [&'static str] = &["like"];

    fn load_size(&self) -> u64 {
        self.posts
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        for post in 0..self.posts {
            session.transaction(|tx| tx.open_or_create::<Posts>("posts")?.set(tx, post, 0))?;
            progress.loaded(1)?;
        }
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let posts = session.read(|tx| tx.open::<Posts>("posts"))?;
        let posts = posts.ok_or_else(|| Failure::wrong("the posts are gone"))?;
        for _ in 0..share.operations {
            if !recorder.go_on() {
                break;
            }
            let post = share.random.below(self.posts);
            recorder.operation(0, || {
                session.transaction(|tx| {
                    let likes = posts.get(tx, post)?.unwrap_or(0);
                    posts.set(tx, post, likes + 1).map(drop)
                })
            })?;
            self.given.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let (given, mut found) = (self.given.load(Ordering::Relaxed), 0);
        session.read(|tx| {
            found = 0;
            let posts = tx.open_or_create::<Posts>("posts")?;
            posts.for_each(tx, &mut |_, likes| {
                found += likes;
                Ok(())
            })
        })?;
        match found == given {
            true => Ok(()),
            false => Err(Failure::wrong(format!("{found} likes of {given} are there"))),
        }
    }
}

fn likes() -> Likes {
    Likes { posts: 1_000, given: AtomicU64::new(0) }
}

/// The format of a small heap.
const FORMAT: Format =
    Format { limit: 64 << 20, log: None, id: 1, requires: None, checksums: false };

/// Natively, in a file.
fn native<E: Engine<Mapped>>(plan: &Plan) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let options = MapOptions { limit: FORMAT.limit, ..MapOptions::default() };
    let memory = Mapped::create(folder.path().join("a.pool"), PAGE, options)?;
    let heap = Heap::<_, E>::create(Arc::new(memory), FORMAT)?;
    let (likes, progress) = (likes(), Progress::default());
    load(&likes, &heap, &progress)?;
    let measured = measure(&likes, &heap, plan, &progress)?;
    likes.check(&mut heap.session()?)?;
    println!("{:12} {:10.0} likes a second", E::NAME, measured.per_second());
    Ok(())
}

/// On a simulated machine, timed by its clock: a program on each of two cores.
fn simulated(plan: &Plan) -> Result<(), Box<dyn std::error::Error>> {
    let options = perdura_machine::Options {
        cores: Some(2),
        limit: FORMAT.limit,
        keep: Keep::Visible,
        ..Default::default()
    };
    let machine = Arc::new(Machine::new(presets::load("optane")?, &[0; 64], options));
    let heap = Heap::<Machine, RedoEngine<Machine>>::create(machine.clone(), FORMAT)?;
    let (likes, progress) = (likes(), Progress::default());
    load(&likes, &heap, &progress)?;
    machine.start_measuring();
    let failure = RefCell::new(None);
    let program = |thread: usize| {
        let (likes, heap, failure, progress) = (&likes, &heap, &failure, &progress);
        Box::new(move || {
            let random = Random::new(plan.seed, thread as u64);
            let share = Share { thread, threads: 2, operations: plan.operations / 2, random };
            let mut recorder = Recorder::new(Likes::KINDS.len(), 0, plan.seed, progress);
            let session = heap.session().map_err(Failure::from);
            let worked = session.and_then(|mut it| work(likes, &mut it, share, &mut recorder));
            if let Err(error) = worked {
                failure.borrow_mut().get_or_insert(error);
            }
        }) as Box<dyn FnOnce() + '_>
    };
    machine.run((0..2).map(program).collect());
    if let Some(error) = failure.into_inner() {
        return Err(error.into());
    }
    let seconds = machine.statistics().time_ns / 1e9;
    likes.check(&mut heap.session()?)?;
    println!("{:12} {:10.0} likes a second, simulated", "redo", plan.operations as f64 / seconds);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plan = Plan {
        threads: 2,
        operations: 2_000,
        warm_up: 200,
        seed: 1,
        sample_every: 0,
        per_second: None,
        pinned: false,
        window: 1,
    };
    native::<RedoEngine<_>>(&plan)?;
    native::<UndoEngine<_>>(&plan)?;
    simulated(&plan)
}
