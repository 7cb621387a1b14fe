//! The network in the heap.
//!
//! Invariants: it has no cycle; a variable is in the list of parents of its children, and the other way round;
//! the likelihood of each is that of its values, given those of its parents.

use super::data::bits;
use crate::stamp::block::{self, WORD, word};
use crate::stamp::list::List;
use perdura::{Error, Result, Tx};

/// Bytes of a variable: half a line.
pub(super) const VARIABLE: u64 = 4 * WORD;
const CHILDREN: u64 = 1;
const LIKELIHOOD: u64 = 2;
const CHANGES: u64 = 3;

/// The network whose variables are there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Net {
    pub(super) at: u64,
    pub(super) variables: u64,
}

/// A variable's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VariableState {
    /// A bit for each.
    pub(super) parents: u64,
    pub(super) likelihood: i64,
    /// Changes of its parents so far.
    pub(super) changes: u64,
}

impl Net {
    fn variable(self, variable: u64) -> u64 {
        self.at + variable * VARIABLE
    }

    pub(super) fn parents(self, variable: u64) -> List {
        List(self.variable(variable))
    }

    pub(super) fn children(self, variable: u64) -> List {
        List(word(self.variable(variable), CHILDREN))
    }

    /// The variables of a list, a bit for each.
    pub(super) fn set<T: Tx + ?Sized>(self, tx: &mut T, list: List) -> Result<u64> {
        let mut set = 0;
        list.each(tx, |_, node, variable, _| {
            if variable >= self.variables {
                return Err(Error::corrupt("an edge to a variable that there is not", node));
            }
            set |= 1 << variable;
            Ok(())
        })?;
        Ok(set)
    }

    pub(super) fn known<T: Tx + ?Sized>(self, tx: &mut T, variable: u64) -> Result<VariableState> {
        let parents = self.set(tx, self.parents(variable))?;
        let at = self.variable(variable);
        let likelihood = tx.read_word(word(at, LIKELIHOOD))? as i64;
        Ok(VariableState { parents, likelihood, changes: tx.read_word(word(at, CHANGES))? })
    }

    /// The variables reachable from a variable without its edge to `but`.
    pub(super) fn descendants<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        variable: u64,
        but: Option<u64>,
    ) -> Result<u64> {
        let but = but.map_or(0, |but| 1 << but);
        let (mut found, mut next) = (0, self.set(tx, self.children(variable))? & !but);
        while next != 0 {
            found |= next;
            let mut further = 0;
            for child in bits(next) {
                further |= self.set(tx, self.children(child))?;
            }
            next = further & !found;
        }
        Ok(found)
    }

    pub(super) fn has_changed<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        variable: u64,
        changes: u64,
    ) -> Result<bool> {
        Ok(tx.read_word(word(self.variable(variable), CHANGES))? != changes)
    }

    pub(super) fn set_likelihood<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        variable: u64,
        value: i64,
    ) -> Result<()> {
        let at = self.variable(variable);
        tx.write_word(word(at, LIKELIHOOD), value as u64)?;
        block::add(tx, word(at, CHANGES), 1).map(drop)
    }

    pub(super) fn insert<T: Tx + ?Sized>(self, tx: &mut T, from: u64, to: u64) -> Result<()> {
        let both =
            self.parents(to).insert(tx, from, 0)? && self.children(from).insert(tx, to, 0)?;
        if both { Ok(()) } else { Err(self.damaged(to)) }
    }

    pub(super) fn remove<T: Tx + ?Sized>(self, tx: &mut T, from: u64, to: u64) -> Result<()> {
        let both = self.parents(to).remove(tx, from)? && self.children(from).remove(tx, to)?;
        if both { Ok(()) } else { Err(self.damaged(to)) }
    }

    #[cold]
    fn damaged(self, variable: u64) -> Error {
        Error::corrupt("edges that their two variables do not agree on", self.variable(variable))
    }
}
