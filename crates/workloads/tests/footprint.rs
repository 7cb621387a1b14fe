//! Sizes of the transactions of STAMP's applications and PMDK's maps, on one thread: compared with docs/workloads.md.
//!
//!     cargo test --release -p perdura-workloads --test footprint -- --nocapture

#![allow(missing_docs)]

use perdura::testing::TestHeap;
use perdura::{
    Access, Counters, Extent, Fresh, Mode, Moment, Purpose, Result, Root, Savepoint, Tx,
};
use perdura_workloads::list::{self, Asked, Given, OnWorkload, Row};
use perdura_workloads::random::Random;
use perdura_workloads::records::Plain;
use perdura_workloads::stamp::Input;
use perdura_workloads::stamp::vacation::{self, Vacation};
use perdura_workloads::{Progress, Recorder, Session, Share, Workload};
use std::collections::BTreeSet;

const SEED: u64 = 1;

/// Words and lines that one transaction read and wrote. Writes to new blocks are not counted.
#[derive(Clone, Debug, Default)]
struct Size {
    reads: u64,
    writes: u64,
    /// Words read without depending on them.
    peeked: u64,
    lines_read: BTreeSet<u64>,
    lines_written: BTreeSet<u64>,
    allocated: u64,
}

impl Size {
    /// Notes the lines of some words. Returns how many words.
    fn note(lines: &mut BTreeSet<u64>, at: u64, len: u64) -> u64 {
        lines.extend(at / 64..(at + len.max(1)).div_ceil(64));
        (at + len).div_ceil(8) - at / 8
    }
}

/// A transaction that is counted.
struct Counted<'t> {
    heap: &'t mut TestHeap,
    size: &'t mut Size,
}

impl Access for Counted<'_> {
    fn read_word(&mut self, at: u64) -> Result<u64> {
        self.size.reads += Size::note(&mut self.size.lines_read, at, 8);
        self.heap.read_word(at)
    }

    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        self.size.writes += Size::note(&mut self.size.lines_written, at, 8);
        self.heap.write_word(at, value)
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.size.reads += Size::note(&mut self.size.lines_read, at, to.len() as u64);
        self.heap.read_bytes(at, to)
    }

    /// Not among the reads that the transaction depends on.
    fn peek_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.size.peeked += Size::note(&mut BTreeSet::new(), at, to.len() as u64);
        self.heap.peek_bytes(at, to)
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.size.writes += Size::note(&mut self.size.lines_written, at, from.len() as u64);
        self.heap.write_bytes(at, from)
    }

    fn mode(&self) -> Mode {
        self.heap.mode()
    }
}

impl Tx for Counted<'_> {
    fn allocate(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.size.allocated += len;
        self.heap.allocate(purpose, len)
    }

    fn write_fresh(&mut self, fresh: Fresh, from: u64, bytes: &[u8]) -> Result<()> {
        self.heap.write_fresh(fresh, from, bytes)
    }

    fn free(&mut self, at: u64) -> Result<()> {
        self.heap.free(at)
    }

    fn usable(&mut self, at: u64) -> Result<u64> {
        self.heap.usable(at)
    }

    fn extent(&mut self, at: u64) -> Result<Option<Extent>> {
        self.heap.extent(at)
    }

    fn undo_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.heap.undo_to(savepoint)
    }

    fn point(&mut self) -> Savepoint {
        self.heap.point()
    }

    fn moment(&self) -> Moment {
        self.heap.moment()
    }

    fn root(&mut self, name: &str) -> Result<Option<Root>> {
        self.heap.root(name)
    }

    fn set_root(&mut self, name: &str, root: Root) -> Result<()> {
        self.heap.set_root(name, root)
    }
}

/// Transactions on a heap of the test's own, one at a time. Those that only read are not kept.
#[derive(Default)]
struct Counting {
    heap: TestHeap,
    sizes: Vec<Size>,
}

impl Session for Counting {
    type Tx<'t> = Counted<'t>;

    fn transaction<R>(&mut self, mut body: impl FnMut(&mut Counted<'_>) -> Result<R>) -> Result<R> {
        let mut size = Size::default();
        let result = body(&mut Counted { heap: &mut self.heap, size: &mut size })?;
        self.heap.commit();
        self.sizes.push(size);
        Ok(result)
    }

    fn read<R>(&mut self, mut body: impl FnMut(&mut Counted<'_>) -> Result<R>) -> Result<R> {
        body(&mut Counted { heap: &mut self.heap, size: &mut Size::default() })
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn pause(&self, _: u32) {}
}

/// The sizes of all transactions of a run on one thread, in their order; its answer is checked.
struct Sizes {
    operations: u64,
}

impl OnWorkload for Sizes {
    type Store = Plain;
    type Output = Vec<Size>;

    fn run<W: Workload>(self, workload: W, _: u64) -> Vec<Size> {
        let mut session = Counting { heap: TestHeap::new(), ..Counting::default() };
        let progress = Progress::default();
        workload.load(&mut session, &progress).expect("it loads");
        session.sizes.clear();
        let random = Random::new(SEED, 0);
        let share = Share { thread: 0, threads: 1, operations: self.operations, random };
        let mut recorder = Recorder::new(W::KINDS.len(), 0, SEED, &progress);
        workload.run_thread(&mut session, share, &mut recorder).expect("it runs");
        let sizes = std::mem::take(&mut session.sizes);
        workload.check(&mut session).expect("a right answer");
        sizes
    }
}

fn of(application: &str) -> Vec<Size> {
    let row = Row::named(application).expect("an application");
    let values = &row.values(&Asked::new(), 1).expect("the plain input");
    let given = Given { values, threads: 1, seed: SEED, operations: 0 };
    list::run(application, &given, Sizes { operations: 0 }).expect("valid parameters")
}

/// Prints the means, with nine tenths of the lines, and compares reads and writes with the documented figures.
fn show(what: &str, sizes: &[&Size], documented: (f64, f64)) {
    let mean = |count: &dyn Fn(&Size) -> u64| {
        sizes.iter().map(|size| count(size) as f64).sum::<f64>() / sizes.len() as f64
    };
    let p90 = |count: &dyn Fn(&Size) -> u64| {
        let mut all: Vec<u64> = sizes.iter().map(|size| count(size)).collect();
        all.sort_unstable();
        all[all.len() * 9 / 10]
    };
    let (read, written) =
        (|size: &Size| size.lines_read.len() as u64, |size: &Size| size.lines_written.len() as u64);
    let (reads, writes) = (mean(&|size| size.reads), mean(&|size| size.writes));
    println!(
        "| {what} | {} | {reads:.1} / {writes:.1} | {:.1} / {:.1} ({} / {}) | {:.0} |",
        sizes.len(),
        mean(&read),
        mean(&written),
        p90(&read),
        p90(&written),
        mean(&|size| size.allocated),
    );
    for (found, documented) in [(reads, documented.0), (writes, documented.1)] {
        let near = (found - documented).abs() <= 0.06 + 0.02 * documented;
        assert!(near, "{what}: {found:.2}, documented {documented}");
    }
}

fn those(sizes: &[Size], which: impl Fn(&Size) -> bool) -> Vec<&Size> {
    sizes.iter().filter(|size| which(size)).collect()
}

fn every(sizes: &[Size], first: usize, step: usize) -> Vec<&Size> {
    sizes.iter().skip(first).step_by(step).collect()
}

#[test]
fn vacation_reserves() {
    for (what, parameters, documented) in [
        ("vacation-low, reserve", vacation::Parameters::low(Input::Plain), (193.3, 4.0)),
        ("vacation-high, reserve", vacation::Parameters::high(Input::Plain), (281.5, 5.4)),
    ] {
        let parameters = vacation::Parameters { user_percent: 100, ..parameters };
        let sizes = Sizes { operations: 4_096 };
        let workload = Vacation::new(parameters, SEED).expect("valid parameters");
        let sizes = sizes.run(workload, 0);
        show(what, &sizes.iter().collect::<Vec<_>>(), documented);
    }
}

#[test]
fn kmeans_adds_points() {
    let sizes = of("kmeans-low");
    show("kmeans, point", &those(&sizes, |size| size.writes == 17), (17.0, 17.0));
    show("kmeans, chunk", &those(&sizes, |size| size.writes == 1), (1.0, 1.0));
}

#[test]
fn ssca2_adds_edges() {
    show("ssca2, edge", &every(&of("ssca2"), 2, 1), (1.0, 2.0));
}

#[test]
fn intruder_puts_packets_together() {
    let sizes = of("intruder");
    let packets = &sizes[..sizes.len() / 3 * 3];
    show("intruder, packet", &every(packets, 0, 3), (5.0, 1.0));
    show("intruder, reassemble", &every(packets, 1, 3), (46.2, 6.5));
    show("intruder, text", &every(packets, 2, 3), (5.3, 0.6));
}

#[test]
fn genome_inserts_and_joins() {
    let sizes = of("genome");
    let together = 16_386usize.div_ceil(12);
    let unique = 256 - 16 + 1;
    let (inserted, rest) = sizes.split_at(together);
    let (indexed, rest) = rest.split_at(unique * 16);
    show("genome, 12 segments", &inserted.iter().collect::<Vec<_>>(), (53.0, 0.2));
    show("genome, entry", &every(indexed, 0, 16), (1.0, 1.0));
    let table: Vec<&Size> =
        indexed.iter().enumerate().filter(|(at, _)| at % 16 != 0).map(|(_, size)| size).collect();
    show("genome, table", &table, (7.9, 1.0));
    show("genome, match", &every(&rest[..rest.len() - 1], 0, 1), (3.9, 4.3));
}

#[test]
fn labyrinth_lays_wires() {
    for (application, peeked) in [("labyrinth", 32 * 32 * 3), ("labyrinth-apart", 0)] {
        let sizes = of(application);
        // Those that found no way read only the copy.
        let is_laid = |size: &Size| size.reads > 0 && size.reads == size.writes;
        let laid = those(&sizes, |size| is_laid(size) && size.allocated == 0);
        show(&format!("{application}, route"), &laid, (21.7, 21.7));
        // A copy of the whole grid in each transaction, or in none.
        assert!(laid.iter().all(|size| size.peeked == peeked), "{application}");
        let routed = those(&sizes, |size| size.peeked > 0);
        assert_eq!(routed.len(), if peeked == 0 { 0 } else { 96 }, "{application}");
    }
}

#[test]
fn yada_refines() {
    let sizes = of("yada");
    show("yada, refine", &those(&sizes, |size| size.allocated >= 64 * 3), (123.0, 8.2));
}

#[test]
fn bayes_applies_tasks() {
    let sizes = of("bayes");
    // Two nodes of lists: an edge that is inserted.
    show("bayes, insert", &those(&sizes, |size| size.allocated == 48), (5.3, 4.0));
}

#[test]
fn pmdk_maps() {
    // The rebuilds are left out.
    let usual = |size: &Size| size.writes < 10;
    show("ctree, insert", &those(&of("ctree-insert"), usual), (76.4, 2.0));
    show("ctree, remove", &those(&of("ctree-remove"), usual), (43.6, 2.0));
    show("hashmap-tx, insert", &those(&of("hashmap-tx-insert"), usual), (10.0, 2.0));
    show("hashmap-tx, remove", &those(&of("hashmap-tx-remove"), usual), (10.5, 2.0));
}
