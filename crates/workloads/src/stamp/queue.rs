//! A queue of words in a ring, which grows when it is full.
//!
//! ```text
//! header  words taken out so far, words put in so far, places, the ring
//! ```

use super::block::{self, WORD, word};
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Tx};

const HEADER: usize = 4;
const TAKEN: u64 = 0;
const PUT: u64 = 1;
const PLACES: u64 = 2;
const RING: u64 = 3;
const LINE: u64 = 64;

/// The queue whose header is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue(pub(crate) u64);

impl Queue {
    /// A new one, with these words in it, in a line of its own.
    pub(crate) fn create<T: Tx + ?Sized>(tx: &mut T, words: &[u64]) -> Result<Self> {
        let places = (words.len() as u64).max(8);
        let ring = tx.allocate(Purpose::General, places * WORD)?;
        tx.write_fresh(ring, 0, bytemuck::cast_slice(words))?;
        let header = tx.allocate(Purpose::General, LINE)?;
        let first = [0, words.len() as u64, places, ring.at()];
        tx.write_fresh(header, 0, first.map(u64::to_ne_bytes).as_flattened())?;
        Ok(Queue(header.at()))
    }

    /// Takes the word that was put in first.
    pub(crate) fn pop<T: Tx + ?Sized>(self, tx: &mut T) -> Result<Option<u64>> {
        let taken = tx.read_word(word(self.0, TAKEN))?;
        if taken == tx.read_word(word(self.0, PUT))? {
            return Ok(None);
        }
        let places = tx.read_word(word(self.0, PLACES))?;
        let ring = tx.read_word(word(self.0, RING))?;
        let value = tx.read_word(self.place(ring, taken, places)?)?;
        tx.write_word(word(self.0, TAKEN), taken + 1)?;
        Ok(Some(value))
    }

    /// Puts a word in, after all that are there.
    pub(crate) fn push<T: Tx + ?Sized>(self, tx: &mut T, value: u64) -> Result<()> {
        let mut header = [0; HEADER];
        block::read(tx, self.0, &mut header)?;
        let [taken, put, mut places, mut ring] = header;
        if put.wrapping_sub(taken) >= places {
            (places, ring) = self.grow(tx, header)?;
        }
        tx.write_word(self.place(ring, put, places)?, value)?;
        tx.write_word(word(self.0, PUT), put + 1)
    }

    /// A ring of twice as many places, with the words of the queue.
    fn grow<T: Tx + ?Sized>(self, tx: &mut T, header: [u64; HEADER]) -> Result<(u64, u64)> {
        let [taken, put, places, ring] = header;
        let larger = tx.allocate(Purpose::General, 2 * places * WORD)?.at();
        for number in taken..put {
            let value = tx.read_word(self.place(ring, number, places)?)?;
            tx.write_word(word(larger, number % (2 * places)), value)?;
        }
        tx.free(ring)?;
        tx.write_word(word(self.0, PLACES), 2 * places)?;
        tx.write_word(word(self.0, RING), larger)?;
        Ok((2 * places, larger))
    }

    fn place(self, ring: u64, number: u64, places: u64) -> Result<u64> {
        let place = number.checked_rem(places);
        let place = place.ok_or_else(|| Error::corrupt("a queue of no places", self.0))?;
        Ok(word(ring, place))
    }

    /// Words that were ever put in.
    pub(crate) fn total<T: Tx + ?Sized>(self, tx: &mut T) -> Result<u64> {
        tx.read_word(word(self.0, PUT))
    }

    /// Words in it.
    pub(crate) fn len<T: Tx + ?Sized>(self, tx: &mut T) -> Result<u64> {
        let (taken, put) = (tx.read_word(self.0)?, tx.read_word(word(self.0, PUT))?);
        Ok(put.wrapping_sub(taken))
    }

    /// Checks it, reports its blocks, and returns its words.
    pub(crate) fn check<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        visit: &mut Visit<'_>,
        mut each: impl FnMut(&mut T, &mut Visit<'_>, u64) -> Result<()>,
    ) -> Result<()> {
        let mut header = [0; HEADER];
        block::read(tx, self.0, &mut header)?;
        let [taken, put, places, ring] = header;
        visit(self.0)?;
        visit(ring)?;
        let fits = places > 0 && tx.usable(ring)? / WORD >= places;
        if taken > put || !fits || put - taken > places {
            return Err(Error::corrupt("a queue of more than it has room for", self.0));
        }
        for number in taken..put {
            let value = tx.read_word(self.place(ring, number, places)?)?;
            each(tx, visit, value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::testing::TestHeap;
    use std::collections::VecDeque;

    #[test]
    fn as_a_queue_of_the_standard_library() {
        let (mut heap, mut model) = (TestHeap::new(), VecDeque::from(vec![7, 8]));
        let queue = Queue::create(&mut heap, &[7, 8]).expect("a queue");
        let mut random = crate::random::Random::new(1, 0);
        for step in 0..3_000 {
            // It fills up at first, and empties then.
            if random.below(3_000) > step {
                queue.push(&mut heap, step).expect("a push");
                model.push_back(step);
            } else {
                assert_eq!(queue.pop(&mut heap).expect("a pop"), model.pop_front());
            }
            assert_eq!(queue.len(&mut heap).expect("a read"), model.len() as u64);
        }
        let (mut blocks, mut words) = (Vec::new(), Vec::new());
        let visit = &mut |at| {
            blocks.push(at);
            Ok(())
        };
        let mut each = |_: &mut TestHeap, _: &mut Visit<'_>, value| {
            words.push(value);
            Ok(())
        };
        queue.check(&mut heap, visit, &mut each).expect("a sound queue");
        assert_eq!(words, Vec::from(model));
        heap.commit();
        blocks.sort_unstable();
        assert_eq!(blocks, heap.live_blocks(), "a leak");
    }
}
