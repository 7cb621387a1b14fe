//! Read and write sets: which cores' speculations have read a line, and which have stored to it.
//!
//! An access looks at one entry. What always holds: a line has an entry as long as some core has it in a set, and each
//! core's list has each of its lines once.

use crate::by_number::ByNumber;

/// The cores that have a line in their sets, as masks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LineUsers {
    pub(super) readers: u64,
    pub(super) writers: u64,
}

impl LineUsers {
    pub(super) fn all(self) -> u64 {
        self.readers | self.writers
    }
}

/// The sets of all cores.
#[derive(Debug, Default)]
pub(super) struct AccessSets {
    lines: ByNumber<LineUsers>,
    /// The lines of each core's sets.
    of: Vec<Vec<u64>>,
}

impl AccessSets {
    /// Empty sets for this many cores.
    pub(super) fn new(cores: usize) -> Self {
        AccessSets { lines: ByNumber::default(), of: vec![Vec::new(); cores] }
    }

    /// The cores that have a line.
    #[inline]
    pub(super) fn users(&self, line: u64) -> LineUsers {
        self.lines.get(&line).copied().unwrap_or_default()
    }

    /// Adds a line to a core's read set, or to its write set. Returns whether it was in neither.
    pub(super) fn add(&mut self, core: usize, line: u64, writes: bool) -> bool {
        let users = self.lines.entry(line).or_default();
        let is_new = users.all() >> core & 1 == 0;
        match writes {
            true => users.writers |= 1 << core,
            false => users.readers |= 1 << core,
        }
        if is_new {
            self.of[core].push(line);
        }
        is_new
    }

    /// The lines of a core's sets.
    pub(super) fn lines(&self, core: usize) -> &[u64] {
        &self.of[core]
    }

    /// Empties a core's sets. Returns the lines that no core has any more.
    pub(super) fn clear(&mut self, core: usize) -> Vec<u64> {
        let mut unused = std::mem::take(&mut self.of[core]);
        unused.retain(|line| {
            let Some(users) = self.lines.get_mut(line) else { return true };
            users.readers &= !(1 << core);
            users.writers &= !(1 << core);
            let none = users.all() == 0;
            if none {
                self.lines.remove(line);
            }
            none
        });
        unused
    }
}

/// The cores of a mask, ascending.
pub(super) fn cores_of(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let core = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (core < 64).then_some(core)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_in_the_sets_of_those_who_have_accessed_it() {
        let mut sets = AccessSets::new(64);
        assert!(sets.add(0, 7, false) && !sets.add(0, 7, true) && sets.add(63, 7, false));
        assert!(sets.add(63, 8, true));
        assert_eq!(sets.users(7), LineUsers { readers: 1 | 1 << 63, writers: 1 });
        assert_eq!(cores_of(sets.users(7).all()).collect::<Vec<_>>(), [0, 63]);
        assert_eq!(sets.clear(63), [8]);
        assert_eq!(
            (sets.users(7), sets.users(8)),
            (LineUsers { readers: 1, writers: 1 }, LineUsers::default())
        );
        assert_eq!((sets.clear(0), sets.clear(0)), (vec![7], vec![]));
    }
}
