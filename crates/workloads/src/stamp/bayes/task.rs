//! Changes of the network that make it better, and the search for a variable's best one.

use super::data::{Data, bits};
use super::net::{Net, VariableState};
use crate::stamp::block;
use perdura::{Error, Result, Tx};

/// The change of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Insert,
    Remove,
    Reverse,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Insert, Kind::Remove, Kind::Reverse];

    /// Edges that it adds.
    pub(super) const fn edges(self) -> i64 {
        match self {
            Kind::Insert => 1,
            Kind::Remove => -1,
            Kind::Reverse => 0,
        }
    }
}

/// A change, the states that it was computed from, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) kind: Kind,
    pub(super) from: u64,
    pub(super) to: u64,
    /// The two variables' change counts when the task was made.
    pub(super) changes_from: u64,
    pub(super) changes_to: u64,
    /// The two variables' new likelihoods.
    pub(super) likelihood_from: i64,
    pub(super) likelihood_to: i64,
    /// How much likelier both become.
    pub(super) gain: i64,
}

/// Words of a task in the heap.
pub(super) const WORDS: usize = 8;

impl Task {
    pub(super) const fn words(&self) -> [u64; WORDS] {
        let Task { kind, from, to, changes_from, changes_to, .. } = *self;
        let likelihoods = [self.likelihood_from as u64, self.likelihood_to as u64];
        let [likelihood_from, likelihood_to] = likelihoods;
        let gain = self.gain as u64;
        [kind as u64, from, to, changes_from, changes_to, likelihood_from, likelihood_to, gain]
    }

    pub(super) fn read<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<Self> {
        let mut words = [0; WORDS];
        block::read(tx, at, &mut words)?;
        let [kind, from, to, changes_from, changes_to, likelihood_from, likelihood_to, gain] =
            words;
        let kind = Kind::ALL.get(kind as usize).copied();
        Ok(Task {
            kind: kind.ok_or_else(|| Error::corrupt("a task of no kind", at))?,
            from,
            to,
            changes_from,
            changes_to,
            likelihood_from: likelihood_from as i64,
            likelihood_to: likelihood_to as i64,
            gain: gain as i64,
        })
    }

    /// Changes the network, unless the variables have changed since the task was made, or there would be a cycle.
    /// Returns whether it did.
    pub(super) fn apply<T: Tx + ?Sized>(&self, tx: &mut T, net: Net) -> Result<bool> {
        let &Task { kind, from, to, .. } = self;
        if net.has_changed(tx, to, self.changes_to)? {
            return Ok(false);
        }
        match kind {
            Kind::Insert => {
                if from == to || net.descendants(tx, to, None)? >> from & 1 != 0 {
                    return Ok(false);
                }
                net.insert(tx, from, to)?;
            }
            Kind::Remove => net.remove(tx, from, to)?,
            Kind::Reverse => {
                let changed = net.has_changed(tx, from, self.changes_from)?;
                if changed || net.descendants(tx, from, Some(to))? >> to & 1 != 0 {
                    return Ok(false);
                }
                net.remove(tx, from, to)?;
                net.insert(tx, to, from)?;
                net.set_likelihood(tx, from, self.likelihood_from)?;
            }
        }
        net.set_likelihood(tx, to, self.likelihood_to)?;
        Ok(true)
    }

    /// Its key in the list: larger gains come first, and keys of different variables differ.
    pub(super) const fn place(&self, penalty: i64) -> u64 {
        let better = self.gain - penalty * self.kind.edges();
        (((1i64 << 50) - better) as u64) << 10 | self.to
    }
}

/// A snapshot of a variable and its parents.
pub(super) struct View {
    variable: u64,
    known: VariableState,
    descendants: u64,
    /// For each parent: its number, its state, and whether its edge may be reversed.
    parents: Vec<(u64, VariableState, bool)>,
}

impl View {
    pub(super) fn read<T: Tx + ?Sized>(tx: &mut T, net: Net, variable: u64) -> Result<Self> {
        let known = net.known(tx, variable)?;
        let descendants = net.descendants(tx, variable, None)?;
        let mut parents = Vec::new();
        for parent in bits(known.parents) {
            let its = net.known(tx, parent)?;
            let others = net.descendants(tx, parent, Some(variable))?;
            parents.push((parent, its, others >> variable & 1 == 0));
        }
        Ok(View { variable, known, descendants, parents })
    }

    /// The change that improves the variable's part of the network by the largest amount, if one does.
    pub(super) fn best(&self, data: &Data, most_parents: u64) -> Option<Task> {
        let mut tasks = Vec::new();
        if u64::from(self.known.parents.count_ones()) < most_parents {
            let not = self.known.parents | self.descendants | 1 << self.variable;
            let others = (0..data.variables()).filter(|other| not >> other & 1 == 0);
            tasks.extend(others.map(|from| self.task(data, Kind::Insert, (from, None))));
        }
        for (parent, its, may_be_reversed) in &self.parents {
            tasks.push(self.task(data, Kind::Remove, (*parent, None)));
            if *may_be_reversed && u64::from(its.parents.count_ones()) < most_parents {
                tasks.push(self.task(data, Kind::Reverse, (*parent, Some(its))));
            }
        }
        let better = |task: &Task| task.gain - data.penalty * task.kind.edges();
        tasks.into_iter().filter(|task| better(task) > 0).max_by_key(better)
    }

    fn task(&self, data: &Data, kind: Kind, (from, its): (u64, Option<&VariableState>)) -> Task {
        let (to, known) = (self.variable, &self.known);
        let likelihood_to = data.likelihood(to, known.parents ^ 1 << from);
        let mut gain = likelihood_to - known.likelihood;
        let (mut changes_from, mut likelihood_from) = (0, 0);
        if let Some(its) = its {
            changes_from = its.changes;
            likelihood_from = data.likelihood(from, its.parents | 1 << to);
            gain += likelihood_from - its.likelihood;
        }
        let changes_to = known.changes;
        Task { kind, from, to, changes_from, changes_to, likelihood_from, likelihood_to, gain }
    }
}
