//! labyrinth: wires through a grid in three dimensions, which must not meet (STAMP).
//!
//! ```text
//! root     grid, cells in x, y and z, queue of wires, the last threads' results
//! cell     0 if it is free, or the number of its wire, from 1 on
//! results  the previous results; words; for each wire its number, its number of cells (0: there is no way), and the cells
//! ```
//!
//! A thread takes a wire and routes it: it copies the grid, finds a way in the copy, and lays the wire if all cells of
//! the way are still free; if not, it begins again. The copy need not be of one moment, for the way's cells are read
//! again. As STAMP does it, all of that is one transaction, which depends on the way's cells alone
//! ([`peek_bytes`](Access::peek_bytes)); or the copy is read before, piece by piece, in transactions that only read, and
//! the transaction has the way's cells only. At the end each thread adds its results to the list. Invariants: a
//! cell that has a wire keeps it.

mod check;
mod maze;
mod route;
#[cfg(test)]
mod tests;

pub use check::check_blocks;

use super::Input;
use super::block::{self, WORD, word};
use super::party::{Meeting, Party};
use super::queue::Queue;
use crate::zeroed;
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use maze::{Maze, Size};
use perdura::{Access, Result, Root, Tx};
use route::{Reported, Router};
use std::sync::atomic::{AtomicU64, Ordering};

const ROOT: &str = "bench.labyrinth";
/// The kind of this workload's root.
pub(crate) const KIND: u32 = 2_016;
const ROOT_WORDS: usize = 6;
/// In the root's block.
const RESULTS: u64 = 5;
/// Cells copied by one transaction that only reads.
const PIECE: usize = 1_024;

/// Where the grid is copied and the way is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// In the transaction that lays the wire: STAMP's.
    Inside,
    /// Before it.
    Apart,
}

/// The grid and its wires: STAMP's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Cells in x.
    pub x: u64,
    /// Cells in y.
    pub y: u64,
    /// Cells in z.
    pub z: u64,
    /// Wires.
    pub wires: u64,
    /// Where the grid is copied.
    pub copied: Copied,
}

impl Parameters {
    /// Those of the input.
    pub const fn of(input: Input) -> Self {
        let (x, y, z, wires) = match input {
            Input::Small => (12, 12, 2, 16),
            Input::Plain => (32, 32, 3, 96),
            Input::Plus => (48, 48, 3, 64),
            Input::Native => (512, 512, 7, 512),
        };
        Parameters { x, y, z, wires, copied: Copied::Inside }
    }

    /// The same, and the grid is copied before the transaction.
    pub const fn apart(input: Input) -> Self {
        Parameters { copied: Copied::Apart, ..Self::of(input) }
    }
}

/// The workload.
#[derive(Debug)]
pub struct Labyrinth {
    maze: Maze,
    copied: Copied,
    laid: AtomicU64,
    no_way: AtomicU64,
    copied_again: AtomicU64,
    meeting: Meeting,
}

/// Where things are in the heap.
#[derive(Clone, Copy, Debug)]
struct Places {
    root: u64,
    grid: u64,
    size: Size,
    wires: Queue,
}

impl Places {
    fn of(root: u64, [grid, x, y, z, wires, _]: [u64; ROOT_WORDS]) -> Self {
        Places { root, grid, size: Size { x, y, z }, wires: Queue(wires) }
    }
}

impl Labyrinth {
    /// With the wires that follow from `seed`.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(parameters: Parameters, seed: u64) -> Outcome<Self> {
        let Parameters { x, y, z, wires, copied } = parameters;
        let maze = Maze::drawn(Size { x, y, z }, wires, seed)?;
        let [laid, no_way, copied_again] = [0; 3].map(AtomicU64::new);
        let meeting = Meeting::default();
        Ok(Labyrinth { maze, copied, laid, no_way, copied_again, meeting })
    }

    /// Upper bound of its bytes.
    pub fn bytes(&self) -> u64 {
        2 * self.maze.size().cells() * WORD + self.maze.wires().len() as u64 * 4 * WORD
    }

    fn open<S: Session>(session: &mut S) -> Outcome<Places> {
        let (root, words) = block::of_root::<S, ROOT_WORDS>(session, ROOT)?;
        Ok(Places::of(root, words))
    }

    /// Lays a wire, if it can, and adds the result to `results`.
    fn lay<S: Session>(
        &self,
        session: &mut S,
        at: Places,
        number: u64,
        router: &mut Router,
        results: &mut Vec<u64>,
    ) -> Outcome {
        let wire = self.maze.wires().get(number as usize);
        let wire = *wire.ok_or_else(|| Failure::wrong("a wire that there is not"))?;
        loop {
            let routed = match self.copied {
                Copied::Inside => session.transaction(|tx| {
                    tx.peek_bytes(at.grid, bytemuck::cast_slice_mut(router.copy_to()))?;
                    let way = router.find(wire);
                    Ok(match way {
                        Some(way) if !fill(tx, at, &way, number + 1)? => Routed::Met,
                        way => Routed::found(way),
                    })
                })?,
                Copied::Apart => {
                    copy(session, at, router.copy_to())?;
                    match router.find(wire) {
                        Some(way)
                            if !session.transaction(|tx| fill(tx, at, &way, number + 1))? =>
                        {
                            Routed::Met
                        }
                        way => Routed::found(way),
                    }
                }
            };
            let way = match routed {
                Routed::Met => {
                    self.copied_again.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                Routed::Laid(way) => way,
                Routed::NoWay => Vec::new(),
            };
            let count = if way.is_empty() { &self.no_way } else { &self.laid };
            count.fetch_add(1, Ordering::Relaxed);
            results.extend([number, way.len() as u64]);
            results.extend_from_slice(&way);
            return Ok(());
        }
    }

    fn wires<S: Session>(
        &self,
        session: &mut S,
        party: Party<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let at = Self::open(session)?;
        let reported = Reported::to(session, at.size);
        let mut router = Router::new(at.size, reported, session.computation());
        let mut results = Vec::new();
        loop {
            if !recorder.go_on() {
                return Ok(());
            }
            let pop = || session.transaction(|tx| at.wires.pop(tx));
            let Some(number) = recorder.operations(1, 0, pop)? else { break };
            recorder.operation(0, || self.lay(session, at, number, &mut router, &mut results))?;
        }
        let hang = || session.transaction(|tx| hang_in(tx, at, &results));
        recorder.operations(2, 0, hang)?;
        party.end();
        Ok(())
    }
}

/// Reads the grid, piece by piece: cells are only ever filled, so the transaction that lays a wire notices stale
/// pieces.
fn copy<S: Session>(session: &mut S, at: Places, to: &mut [u64]) -> Outcome {
    for (index, piece) in (0..).zip(to.chunks_mut(PIECE)) {
        let from = word(at.grid, index * PIECE as u64);
        session.read(|tx| block::read(tx, from, piece))?;
    }
    Ok(())
}

/// A wire's fate.
enum Routed {
    /// Its cells.
    Laid(Vec<u64>),
    /// Another wire has been laid across the way since the copy.
    Met,
    NoWay,
}

impl Routed {
    /// A way that was free, if there was one.
    fn found(way: Option<Vec<u64>>) -> Self {
        way.map_or(Routed::NoWay, Routed::Laid)
    }
}

/// Fills a way's cells between its ends, unless one of them is not free.
fn fill<T: Tx + ?Sized>(tx: &mut T, at: Places, way: &[u64], value: u64) -> Result<bool> {
    let cells = &way[1..way.len() - 1];
    for cell in cells {
        if tx.read_word(word(at.grid, *cell))? != 0 {
            return Ok(false);
        }
    }
    for cell in cells {
        tx.write_word(word(at.grid, *cell), value)?;
    }
    Ok(true)
}

/// Puts a thread's results at the head of the list.
fn hang_in<T: Tx + ?Sized>(tx: &mut T, at: Places, results: &[u64]) -> Result<()> {
    let link = word(at.root, RESULTS);
    let mut words = vec![tx.read_word(link)?, results.len() as u64];
    words.extend_from_slice(results);
    let new = block::new_slice(tx, &words)?;
    tx.write_word(link, new)
}

/// The workload whose transactions have no copy of the grid.
pub struct Apart;

super::listed! {
    Labyrinth: "labyrinth", "STAMP: wires laid in a grid, to the end", "wires" wires, Parameters::of,
    Labyrinth, |values| values.entries()
}

super::listed! {
    Apart: "labyrinth-apart", "the same, the grid copied before the transaction", "wires" wires,
    Parameters::apart, Labyrinth, |values| values.entries()
}

impl Workload for Labyrinth {
    const KINDS: &'static [&'static str] = &["route", "wire", "results"];
    const ENDS: bool = true;

    fn load_size(&self) -> u64 {
        self.maze.wires().len() as u64
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let size = self.maze.size();
        let numbers: Vec<u64> = (0..self.load_size()).collect();
        let at = session.transaction(|tx| {
            let grid = zeroed::allocate(tx, size.cells() * WORD)?;
            let wires = Queue::create(tx, &numbers)?;
            let words = [grid, size.x, size.y, size.z, wires.0, 0];
            let root = block::new(tx, words)?;
            tx.set_root(ROOT, Root { at: root, kind: KIND })?;
            Ok(Places::of(root, words))
        })?;
        for (number, (from, to)) in (1..).zip(self.maze.wires()) {
            session.transaction(|tx| {
                tx.write_word(word(at.grid, *from), number)?;
                tx.write_word(word(at.grid, *to), number)
            })?;
            progress.loaded(1)?;
        }
        Ok(())
    }

    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        self.wires(session, self.meeting.join(share.threads), recorder)
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        if self.meeting.was_left() {
            return Ok(());
        }
        let at = Self::open(session)?;
        let mut grid = vec![0; at.size.cells() as usize];
        copy(session, at, &mut grid)?;
        let results = session.read(|tx| check::results(tx, at, &mut |_| Ok(())))?;
        let laid = check::wires(&self.maze, &grid, &results)?;
        if laid != self.laid.load(Ordering::Relaxed) {
            return Err(Failure::wrong("threads have laid other wires than there are"));
        }
        Ok(())
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        vec![
            ("laid", count(&self.laid)),
            ("without a way", count(&self.no_way)),
            ("copied again", count(&self.copied_again)),
        ]
    }
}
