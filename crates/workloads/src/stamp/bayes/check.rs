//! Checks of a network, and of the learnt edges.

use super::data::{Data, bits};
use super::net::VariableState;
use super::task::Task;
use super::{EDGES, LIKELIHOOD, Places, ROOT_WORDS};
use crate::stamp::block::{self, word};
use crate::{Failure, Outcome};
use perdura::collections::Visit;
use perdura::{Error, Result, Tx};

/// The network in the heap.
pub(super) struct LearntNetwork {
    /// Each variable's state, and its children.
    variables: Vec<(VariableState, u64)>,
    tasks: u64,
    likelihood: i64,
    edges: i64,
}

/// Reads all of it, and reports its blocks.
pub(super) fn network<T: Tx + ?Sized>(
    tx: &mut T,
    at: Places,
    visit: &mut Visit<'_>,
) -> Result<LearntNetwork> {
    visit(at.net.at)?;
    let mut variables = Vec::new();
    for variable in 0..at.net.variables {
        for list in [at.net.parents(variable), at.net.children(variable)] {
            list.check(tx, visit, |_, _| Ok(()))?;
        }
        let children = at.net.set(tx, at.net.children(variable))?;
        variables.push((at.net.known(tx, variable)?, children));
    }
    let mut tasks = Vec::new();
    at.tasks.check(tx, visit, |_, task| {
        tasks.push(task);
        Ok(())
    })?;
    for task in &tasks {
        visit(*task)?;
        Task::read(tx, *task)?;
    }
    let likelihood = tx.read_word(word(at.root, LIKELIHOOD))? as i64;
    let edges = tx.read_word(word(at.root, EDGES))? as i64;
    Ok(LearntNetwork { variables, tasks: tasks.len() as u64, likelihood, edges })
}

impl LearntNetwork {
    /// No cycle, edges that both ends know, not too many parents, and the likelihoods that follow from the records.
    pub(super) fn check(&self, data: &Data, most_parents: u64) -> Outcome {
        let wrong =
            |variable: u64, what: &str| Err(Failure::Wrong(format!("variable {variable} {what}")));
        for (variable, (known, children)) in (0..).zip(&self.variables) {
            let parent = |child: u64| self.variables[child as usize].0.parents >> variable & 1 != 0;
            let child = |parent: u64| self.variables[parent as usize].1 >> variable & 1 != 0;
            if !bits(*children).all(parent) || !bits(known.parents).all(child) {
                return wrong(variable, "has an edge that the other end does not know");
            }
            if u64::from(known.parents.count_ones()) > most_parents {
                return wrong(variable, "has too many parents");
            }
            if known.likelihood != data.likelihood(variable, known.parents) {
                return wrong(variable, "is not as likely as it says");
            }
        }
        // Removes variables without parents among the rest, as long as there are any.
        let mut left = u64::MAX >> (64 - self.variables.len());
        while left != 0 {
            let is_first =
                |variable: &u64| self.variables[*variable as usize].0.parents & left == 0;
            match bits(left).find(is_first) {
                Some(variable) => left &= !(1 << variable),
                None => {
                    return wrong(bits(left).next().unwrap_or(0), "is in a circle, or behind one");
                }
            }
        }
        Ok(())
    }

    /// No task is left, and the sums are those of all variables and of all gains.
    pub(super) fn check_sums(&self, data: &Data, gained: i64, edges: i64) -> Outcome {
        let likelihood: i64 = self.variables.iter().map(|(known, _)| known.likelihood).sum();
        let at_first: i64 =
            (0..data.variables()).map(|variable| data.likelihood(variable, 0)).sum();
        let count: u32 = self.variables.iter().map(|(known, _)| known.parents.count_ones()).sum();
        let likely = self.likelihood == likelihood && likelihood == at_first + gained;
        if !likely || self.edges != i64::from(count) || self.edges != edges || self.tasks > 0 {
            return Err(Failure::Wrong(format!(
                "{} tasks are left; the sums say {} and {} edges, variables {likelihood} and {count}, threads {} and {edges}",
                self.tasks,
                self.likelihood,
                self.edges,
                at_first + gained,
            )));
        }
        Ok(())
    }
}

/// Checks the data below the root, and reports its blocks.
///
/// # Errors
/// `Corrupt` if it is damaged; the errors of `visit`.
pub fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(at)?;
    let mut words = [0; ROOT_WORDS];
    block::read(tx, at, &mut words)?;
    if words[1] > 64 {
        return Err(Error::corrupt("a network of too many variables", at));
    }
    network(tx, Places::of(at, words), visit).map(drop)
}
