//! The IDs of a stream's entries: milliseconds, and a number that tells apart those of the same one.

use perdura::Persist;

/// An entry's ID. They are ordered as entries are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Persist)]
#[persist(name = "perdura-server.StreamId")]
#[repr(C)]
pub(crate) struct Id {
    pub(crate) ms: u64,
    pub(crate) seq: u64,
}

impl Id {
    pub(crate) const MIN: Id = Id { ms: 0, seq: 0 };
    pub(crate) const MAX: Id = Id { ms: u64::MAX, seq: u64::MAX };

    /// The least ID that is greater.
    pub(crate) fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => self.ms.checked_add(1).map(|ms| Id { ms, seq: 0 }),
        }
    }

    /// The greatest ID that is less.
    pub(crate) fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => self.ms.checked_sub(1).map(|ms| Id { ms, seq: u64::MAX }),
        }
    }

    /// As clients see it.
    pub(crate) fn text(self) -> String {
        let mut digits = itoa::Buffer::new();
        let mut text = digits.format(self.ms).to_owned();
        text.push('-');
        text.push_str(digits.format(self.seq));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours() {
        let id = |ms, seq| Id { ms, seq };
        for (one, next) in [(id(1, 2), id(1, 3)), (id(1, u64::MAX), id(2, 0)), (Id::MIN, id(0, 1))]
        {
            assert_eq!(one.next(), Some(next));
            assert_eq!(next.previous(), Some(one));
            assert!(one < next);
        }
        assert_eq!((Id::MAX.next(), Id::MIN.previous()), (None, None));
        assert_eq!(id(12, 3).text(), "12-3");
    }
}
