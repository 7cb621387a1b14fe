//! Checks of a whole tree: colours, black height, order, parents.

use super::{DEEPEST, NODE, Nodes, Side, VALUE};
use crate::toggle::Pairs;
use perdura::collections::Visit;
use perdura::{Error, Result, Tx};

/// The conditions for a node, known before it is visited.
struct Place {
    parent: u64,
    parent_is_red: bool,
    /// The keys that may be below: those above the first, and below the second.
    above: Option<u64>,
    below: Option<u64>,
    depth: usize,
}

impl<T: Tx + ?Sized> Nodes<'_, T> {
    /// Checks the tree, and reports its nodes.
    pub(super) fn check(&mut self, visit: &mut Visit<'_>, pair: &mut Pairs<'_>) -> Result<()> {
        let root = self.root()?;
        if self.is_red(root)? {
            return Err(Error::corrupt("a red root", root));
        }
        let place = Place { parent: 0, parent_is_red: false, above: None, below: None, depth: 0 };
        self.check_below(root, &place, visit, pair).map(drop)
    }

    /// The black height of the nodes below; in the order of keys.
    fn check_below(
        &mut self,
        node: u64,
        place: &Place,
        visit: &mut Visit<'_>,
        pair: &mut Pairs<'_>,
    ) -> Result<u32> {
        if node == 0 {
            return Ok(1);
        }
        if place.depth >= DEEPEST {
            return Err(self.too_deep());
        }
        let (key, red) = (self.key(node)?, self.is_red(node)?);
        self.check_node(node, key, red, place)?;
        visit(node)?;
        let here = || Place {
            parent: node,
            parent_is_red: red,
            above: place.above,
            below: place.below,
            depth: place.depth + 1,
        };
        let left = self.child(node, Side::Left)?;
        let left = self.check_below(left, &Place { below: Some(key), ..here() }, visit, pair)?;
        pair(key, self.get(node, VALUE)?)?;
        let right = self.child(node, Side::Right)?;
        let right = self.check_below(right, &Place { above: Some(key), ..here() }, visit, pair)?;
        if left != right {
            return Err(Error::corrupt("a node with different black heights", node));
        }
        Ok(left + u32::from(!red))
    }

    fn check_node(&mut self, node: u64, key: u64, red: bool, place: &Place) -> Result<()> {
        let problem = if self.parent(node)? != place.parent {
            "a node with another's parent"
        } else if self.get(node, super::COLOUR)? > super::RED {
            "a node of no colour"
        } else if red && place.parent_is_red {
            "a red node below a red one"
        } else if place.above.is_some_and(|above| key <= above)
            || place.below.is_some_and(|below| key >= below)
        {
            "a node out of order"
        } else if self.tx.usable(node)? < NODE {
            "a node that is cut short"
        } else {
            return Ok(());
        };
        Err(Error::corrupt(problem, node))
    }
}
