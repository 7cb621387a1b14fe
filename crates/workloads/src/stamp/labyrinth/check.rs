//! Whether wires are whole, join their ends and do not meet.

use super::maze::{DIRECTIONS, Maze};
use super::route::{Reported, Router};
use super::{Places, RESULTS, ROOT_WORDS};
use crate::stamp::block::{self, WORD, word};
use crate::{Computation, Failure, Outcome};
use perdura::collections::Visit;
use perdura::{Error, Result, Tx};

/// The result for a wire: its number and its cells, empty if there was no way.
pub(super) type Laid = (u64, Vec<u64>);

/// The threads' results; reports the blocks.
pub(super) fn results<T: Tx + ?Sized>(
    tx: &mut T,
    at: Places,
    visit: &mut Visit<'_>,
) -> Result<Vec<Laid>> {
    let (mut all, mut block) = (Vec::new(), tx.read_word(word(at.root, RESULTS))?);
    while block != 0 {
        visit(block)?;
        let wrong = || Error::corrupt("results that are cut short", block);
        let len = tx.read_word(word(block, 1))?;
        if len > tx.usable(block)? / WORD || all.len() as u64 > at.size.cells() {
            return Err(wrong());
        }
        let mut words = vec![0; len as usize];
        block::read(tx, word(block, 2), &mut words)?;
        let mut rest = words.as_slice();
        while let [number, cells, more @ ..] = rest {
            let (way, more) = more.split_at_checked(*cells as usize).ok_or_else(wrong)?;
            all.push((*number, way.to_vec()));
            rest = more;
        }
        block = tx.read_word(block)?;
    }
    Ok(all)
}

/// How many wires are laid. The grid must hold them and the ends of the others, and for those there must be no way.
pub(super) fn wires(maze: &Maze, grid: &[u64], results: &[Laid]) -> Outcome<u64> {
    let wrong = |number: u64, what: &str| Err(Failure::Wrong(format!("wire {number} {what}")));
    let mut should_be = vec![0; grid.len()];
    for (number, (from, to)) in (1..).zip(maze.wires()) {
        should_be[*from as usize] = number;
        should_be[*to as usize] = number;
    }
    let mut seen = vec![false; maze.wires().len()];
    let (mut laid, mut without) = (0, Vec::new());
    for (number, way) in results {
        let wire = match seen.get_mut(*number as usize) {
            Some(seen) if !*seen => {
                *seen = true;
                maze.wires()[*number as usize]
            }
            _ => return wrong(*number, "was taken twice, or never drawn"),
        };
        if way.is_empty() {
            without.push((*number, wire));
            continue;
        }
        laid += 1;
        let next_to = |two: &[u64]| {
            (0..DIRECTIONS).any(|way| maze.size().beside(two[0], way) == Some(two[1]))
        };
        let joins = way.len() >= 2 && (way[0], way[way.len() - 1]) == wire;
        if !joins || !way.windows(2).all(next_to) {
            return wrong(*number, "does not lead from one end to the other");
        }
        for cell in &way[1..way.len() - 1] {
            let cell = &mut should_be[*cell as usize];
            if *cell != 0 {
                return wrong(*number, "meets another one");
            }
            *cell = number + 1;
        }
    }
    if seen.iter().any(|seen| !seen) {
        return Err(Failure::wrong("a wire was lost"));
    }
    if grid != should_be {
        return Err(Failure::wrong("the grid has other wires than threads have laid"));
    }
    // Cells do not become free again: if there was no way, there is none now.
    let mut router = Router::new(maze.size(), Reported::default(), Computation::default());
    for (number, wire) in without {
        router.copy_to().copy_from_slice(grid);
        if router.find(wire).is_some() {
            return wrong(number, "was not laid, though there is a way");
        }
    }
    Ok(laid)
}

/// Checks the structure at the root, and reports its blocks.
///
/// # Errors
/// `Corrupt` if it is damaged; the errors of `visit`.
pub fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(at)?;
    let mut words = [0; ROOT_WORDS];
    block::read(tx, at, &mut words)?;
    let places = Places::of(at, words);
    visit(places.grid)?;
    places.wires.check(tx, visit, |_, _, _| Ok(()))?;
    results(tx, places, visit).map(drop)
}
