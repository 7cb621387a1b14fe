//! How often each object of a workload is used, without an engine.

use serde::Serialize;

/// Counts operations on objects, numbered from 0.
#[derive(Clone, Debug, Default)]
pub struct Uses(Vec<u8>);

/// Objects by the number of operations on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reuse {
    /// Without any.
    pub never: u64,
    /// With one.
    pub once: u64,
    /// With two.
    pub twice: u64,
    /// With three or more.
    pub more: u64,
}

impl Uses {
    /// No operation yet, on `objects` objects.
    pub fn of(objects: u64) -> Self {
        Uses(vec![0; objects as usize])
    }

    /// Notes an operation on `object`, which may be new.
    pub fn note(&mut self, object: u64) {
        let index = object as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = self.0[index].saturating_add(1);
    }

    /// The distribution.
    pub fn reuse(&self) -> Reuse {
        let mut reuse = Reuse::default();
        for uses in &self.0 {
            match uses {
                0 => reuse.never += 1,
                1 => reuse.once += 1,
                2 => reuse.twice += 1,
                _ => reuse.more += 1,
            }
        }
        reuse
    }
}

impl Reuse {
    /// All objects.
    pub const fn objects(&self) -> u64 {
        self.never + self.once + self.twice + self.more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_counted_and_never_wrap() {
        let mut uses = Uses::of(3);
        (0..300).for_each(|_| uses.note(0));
        [1, 4, 4].into_iter().for_each(|object| uses.note(object));
        assert_eq!(uses.reuse(), Reuse { never: 2, once: 1, twice: 1, more: 1 });
        assert_eq!(uses.reuse().objects(), 5);
    }
}
