//! Maps that are made as a whole, of entries that come in order.
//!
//! Each node is written once, as a whole, into fresh memory, and no entry is searched for.

use super::OrderedMap;
use super::path::Path;
use super::tree::{Node, Order, Tree};
use crate::collections::codec::{Item, each_word};
use crate::{Error, Persist, Result, Tx};

/// A tree that grows at its right end.
struct Build {
    tree: Tree,
    /// The last node of each level, which is not written yet.
    levels: Vec<Level>,
}

/// Slots of a node to be, and how many entries are below them.
#[derive(Default)]
struct Level {
    slots: Vec<u64>,
    entries: u64,
}

impl Build {
    /// Adds a slot to a level: a key, and a value or a child.
    fn add<T: Tx + ?Sized>(
        &mut self,
        tx: &mut T,
        level: usize,
        slot: &[u64],
        entries: u64,
    ) -> Result<()> {
        let shape = self.tree.shape(level);
        let words = (shape.slot / 8) as usize;
        if level == self.levels.len() {
            self.levels.push(Level::default());
        } else if self.levels[level].slots.len() == words * shape.slots {
            self.close(tx, level)?;
        }
        let node = &mut self.levels[level];
        let len = node.slots.len();
        node.slots.extend_from_slice(slot);
        node.slots.resize(len + words, 0);
        node.entries += entries;
        Ok(())
    }

    /// Writes the last node of a level, and adds it to the level above.
    fn close<T: Tx + ?Sized>(&mut self, tx: &mut T, level: usize) -> Result<()> {
        let key = self.tree.key.words;
        // The first keys of the leaves separate them.
        let mut slot = self.levels[level].slots[..key].to_vec();
        let (node, entries) = self.write(tx, level)?;
        slot.push(node.at);
        if self.tree.has_counts(level + 1) {
            slot.push(entries);
        }
        self.add(tx, level + 1, &slot, entries)
    }

    /// Writes the last node of a level. Returns it, and how many entries are below it.
    fn write<T: Tx + ?Sized>(&mut self, tx: &mut T, level: usize) -> Result<(Node, u64)> {
        let Level { slots, entries } = &mut self.levels[level];
        if level > 0 {
            slots[..self.tree.key.words].fill(0);
        }
        let count = slots.len() as u64 * 8 / self.tree.shape(level).slot;
        let order = (0..count).fold(Order(0), |order, slot| order.with(slot as usize, slot));
        let node = self.tree.new_node(tx, level, order, slots)?;
        slots.clear();
        Ok((node, std::mem::take(entries)))
    }

    /// Writes what is left. The last level's node is the root: it has more than one slot, since a node is closed only when
    /// another one follows.
    fn end<T: Tx + ?Sized>(mut self, tx: &mut T) -> Result<()> {
        let mut level = 0;
        while level + 1 < self.levels.len() {
            self.close(tx, level)?;
            level += 1;
        }
        if level < self.levels.len() {
            let (root, _) = self.write(tx, level)?;
            self.tree.set_root(tx, root.at)?;
        }
        Ok(())
    }
}

impl<K: Persist + Ord, V: Persist, const COUNTED: bool> OrderedMap<K, V, COUNTED> {
    /// A new map of those entries for which `keep` returns `true`; this one stays as it is. Where much of a map is to go,
    /// this takes less time than to remove it entry by entry, and less of the log where that has no fresh memory. An error
    /// that `keep` returns ends the walk.
    ///
    /// ```
    /// # perdura::testing::TestHeap::new().run(&mut |tx| {
    /// use perdura::collections::OrderedMap;
    ///
    /// let map = OrderedMap::<u64, u64>::create(tx)?;
    /// for key in 0..100 {
    ///     map.insert(tx, key, key % 3)?;
    /// }
    /// let rest = map.retained(tx, &mut |_, value| Ok(value == 1))?;
    /// assert_eq!(rest.len(tx)?, 33);
    /// map.destroy(tx)?;
    /// # Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Tx::allocate`]; the errors of `keep`; `Corrupt` if the map is damaged.
    pub fn retained<T: Tx + ?Sized>(
        self,
        tx: &mut T,
        keep: &mut dyn FnMut(K, V) -> Result<bool>,
    ) -> Result<Self> {
        let (tree, new) = (self.tree(tx)?, Self::create(tx)?);
        let mut build = Build { tree: Tree { at: new.at, ..tree }, levels: Vec::new() };
        let mut path = Path::to_edge(tx, &tree, false)?;
        let (mut slot, mut last) = (Vec::new(), None);
        let mut goes_on = path.len() > 0;
        while goes_on {
            let (leaf, _) = path.end(tx, &tree)?;
            for position in 0..leaf.order.len() {
                let at = tree.slot(tx, &leaf, position)?;
                let key = <K as Item>::load(tx, at)?;
                if last >= Some(key) {
                    return Err(Error::corrupt("a key out of order", at));
                }
                last = Some(key);
                let value = <V as Item>::load(tx, at + Self::VALUE)?;
                if keep(key, value)? {
                    slot.clear();
                    let mut push = |word| {
                        slot.push(word);
                        Ok(true)
                    };
                    each_word(key, &mut push)?;
                    each_word(value, &mut push)?;
                    build.add(tx, 0, &slot, 1)?;
                }
            }
            goes_on = path.next_leaf(tx, &tree)?;
        }
        build.end(tx)?;
        Ok(new)
    }
}
