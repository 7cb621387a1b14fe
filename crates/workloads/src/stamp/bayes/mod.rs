//! bayes: learns the network of dependencies behind some records, edge by edge (STAMP).
//!
//! ```text
//! root      variables, how many; likelihood of all records, edges; list of tasks
//! variable  list of parents, list of children, likelihood of its values, changes of its parents
//! task      kind, from, to, their changes, their new likelihoods, gain
//! ```
//!
//! Each variable has a task at first: the edge into it that raises the records' likelihood by the largest amount. A
//! thread takes the best task, changes the network in a transaction, adds to the sums in another, and looks for the
//! variable's next task: an edge inserted, removed or reversed. It computes likelihoods outside transactions. A task
//! whose variables have changed since, or which would make a cycle, changes nothing; STAMP does not check for changes.
//! So each change makes the network better, and it ends. Likelihoods are whole numbers, and so sums are exact.

mod check;
mod data;
mod net;
mod task;
#[cfg(test)]
mod tests;

pub use check::check_blocks;

use super::Input;
use super::block::{self, word};
use super::list::List;
use super::party::{Meeting, Party};
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use data::Data;
use net::{Net, VARIABLE};
use perdura::{Purpose, Result, Root, Tx};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use task::{Task, View};

const ROOT: &str = "bench.bayes";
/// The kind of this workload's root.
pub(crate) const KIND: u32 = 2_018;
const ROOT_WORDS: usize = 5;
/// In the root's block.
const LIKELIHOOD: u64 = 2;
const EDGES: u64 = 3;
const TASKS: u64 = 4;

/// The records, and the network to learn: STAMP's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// `-v`: variables.
    pub variables: u64,
    /// `-r`: records.
    pub records: u64,
    /// `-n`: the maximum number of parents of a variable in the network that the records are drawn from.
    pub most_parents: u64,
    /// `-p`: the probability of each of them, in percent.
    pub parent_percent: u64,
    /// `-i`: an edge must make the records likelier by this many times half the logarithm of their number.
    pub insert_penalty: u64,
    /// `-e`: a variable that has no more parents than these may get another one.
    pub most_learnt: u64,
}

impl Parameters {
    /// Those of the input.
    pub const fn of(input: Input) -> Self {
        let (variables, records, most_parents, parent_percent, most_learnt) = match input {
            Input::Small => (12, 200, 2, 60, 2),
            Input::Plain => (32, 1_024, 2, 20, 2),
            Input::Plus => (32, 4_096, 2, 20, 2),
            Input::Native => (32, 4_096, 10, 40, 8),
        };
        let insert_penalty = 2;
        Parameters { variables, records, most_parents, parent_percent, insert_penalty, most_learnt }
    }
}

/// The workload.
#[derive(Debug)]
pub struct Bayes {
    data: Data,
    most_learnt: u64,
    /// How much changes have made the records likelier, and the edges that they have added.
    gained: AtomicI64,
    edges: AtomicI64,
    in_vain: AtomicU64,
    meeting: Meeting,
}

/// Where things are in the heap.
#[derive(Clone, Copy, Debug)]
struct Places {
    root: u64,
    net: Net,
    tasks: List,
}

impl Places {
    const fn of(root: u64, [at, variables, ..]: [u64; ROOT_WORDS]) -> Self {
        Places { root, net: Net { at, variables }, tasks: List(word(root, TASKS)) }
    }

    fn put<T: Tx + ?Sized>(self, tx: &mut T, task: &Task, penalty: i64) -> Result<()> {
        let new = block::new(tx, task.words())?;
        if self.tasks.insert(tx, task.place(penalty), new)? { Ok(()) } else { tx.free(new) }
    }

    fn take<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Option<Task>> {
        let Some((_, at)) = self.tasks.pop(tx)? else { return Ok(None) };
        let task = Task::read(tx, at)?;
        tx.free(at)?;
        Ok(Some(task))
    }
}

impl Bayes {
    /// With the records that follow from `seed`.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(parameters: Parameters, seed: u64) -> Outcome<Self> {
        let Parameters { variables, records, most_parents, parent_percent, most_learnt, .. } =
            parameters;
        let few = most_parents <= 16 && most_learnt <= 16 && parent_percent <= 100;
        if !(2..=64).contains(&variables) || records == 0 || records > 1 << 24 || !few {
            let what =
                "bayes needs 2 to 64 variables, a record (2^24 at most), and up to 16 parents";
            return Err(Failure::Parameters(what.to_owned()));
        }
        Ok(Bayes {
            data: Data::drawn(&parameters, seed),
            most_learnt,
            gained: AtomicI64::new(0),
            edges: AtomicI64::new(0),
            in_vain: AtomicU64::new(0),
            meeting: Meeting::default(),
        })
    }

    /// Upper bound of its bytes.
    pub fn bytes(&self) -> u64 {
        self.data.variables() * (VARIABLE + 128 + 64 * (self.most_learnt + 1))
    }

    fn open<S: Session>(session: &mut S) -> Outcome<Places> {
        let (root, words) = block::of_root::<S, ROOT_WORDS>(session, ROOT)?;
        Ok(Places::of(root, words))
    }

    /// Looks for a variable's next task, and puts it into the list.
    fn look<S: Session>(
        &self,
        session: &mut S,
        at: Places,
        variable: u64,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let view = session.read(|tx| View::read(tx, at.net, variable))?;
        if let Some(task) = view.best(&self.data, self.most_learnt + 1) {
            let put = || session.transaction(|tx| at.put(tx, &task, self.data.penalty));
            recorder.operations(2, 0, put)?;
        }
        Ok(())
    }

    fn learn<S: Session>(
        &self,
        session: &mut S,
        share: &Share,
        party: Party<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let at = Self::open(session)?;
        for variable in share.part_of(self.data.variables()) {
            self.look(session, at, variable, recorder)?;
        }
        if !party.wait(session) {
            return Ok(());
        }
        while recorder.go_on() {
            let take = || session.transaction(|tx| at.take(tx));
            let Some(task) = recorder.operations(1, 0, take)? else {
                party.end();
                return Ok(());
            };
            let apply = || session.transaction(|tx| task.apply(tx, at.net));
            if recorder.operation(0, apply)? {
                let (gain, edges) = (task.gain, task.kind.edges());
                let sum = || {
                    session.transaction(|tx| {
                        block::add(tx, word(at.root, LIKELIHOOD), gain as u64)?;
                        block::add(tx, word(at.root, EDGES), edges as u64).map(drop)
                    })
                };
                recorder.operations(3, 0, sum)?;
                self.gained.fetch_add(gain, Ordering::Relaxed);
                self.edges.fetch_add(edges, Ordering::Relaxed);
            } else {
                self.in_vain.fetch_add(1, Ordering::Relaxed);
            }
            self.look(session, at, task.to, recorder)?;
        }
        Ok(())
    }
}

super::listed! {
    Bayes: "bayes", "STAMP: a network of dependencies learnt from records, to the end", "records" records,
    Parameters::of, Bayes, |values| values.entries()
}

impl Workload for Bayes {
    const KINDS: &'static [&'static str] = &["apply", "task", "put", "sums"];
    const ENDS: bool = true;

    fn load_size(&self) -> u64 {
        self.data.variables()
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let variables = self.data.variables();
        let likelihoods: Vec<i64> =
            (0..variables).map(|variable| self.data.likelihood(variable, 0)).collect();
        let sum: i64 = likelihoods.iter().sum();
        let words: Vec<u64> =
            likelihoods.iter().flat_map(|likelihood| [0, 0, *likelihood as u64, 0]).collect();
        session.transaction(|tx| {
            let new = tx.allocate(Purpose::General, variables * VARIABLE)?;
            tx.write_fresh(new, 0, bytemuck::cast_slice(&words))?;
            let root = block::new(tx, [new.at(), variables, sum as u64, 0, 0])?;
            tx.set_root(ROOT, Root { at: root, kind: KIND })
        })?;
        progress.loaded(variables)
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        self.learn(session, &share, self.meeting.join(share.threads), recorder)
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let at = Self::open(session)?;
        let found = session.read(|tx| check::network(tx, at, &mut |_| Ok(())))?;
        found.check(&self.data, self.most_learnt + 1)?;
        if self.meeting.was_left() {
            return Ok(());
        }
        let gained = self.gained.load(Ordering::Relaxed);
        found.check_sums(&self.data, gained, self.edges.load(Ordering::Relaxed))
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let edges = self.edges.load(Ordering::Relaxed).max(0) as u64;
        vec![("edges", edges), ("in vain", self.in_vain.load(Ordering::Relaxed))]
    }
}
