//! Measures the controller of the machine `optane` as real modules were measured, without caches: the
//! core's contribution is the constants below.

use perdura_machine::config::MemoryConfig;
use perdura_machine::controller::{Cause, Controller};
use perdura_machine::{Ps, presets};
use std::collections::VecDeque;

/// Times added by cores, ns. Where a comment says that a constant is fitted, the row that it is fitted to
/// agrees by construction.
mod core {
    /// Missing all caches.
    pub(super) const CACHES: f64 = 20.0;
    /// A non-temporal store with a fence, besides the controller: fitted to the idle 90.
    pub(super) const NTSTORE: f64 = 45.0;
    /// clwb with a fence, likewise: fitted to the idle 62.
    pub(super) const CLWB: f64 = 17.0;
    /// Around a flush-and-fence of any size: fitted to its 64 bytes, which took longer than the
    /// idle store and clwb of the same study (125 against 90, 116 against 62).
    pub(super) const NTSTORE_LOOP: f64 = 35.0;
    pub(super) const CLWB_LOOP: f64 = 54.0;
    /// Between two non-temporal stores: fitted to flush-and-fence of 128 bytes (135).
    pub(super) const NTSTORE_ISSUE: f64 = 10.0;
    /// Between two lines stored and written back: fitted to flush-and-fence of 4096 bytes (1774).
    pub(super) const CLWB_ISSUE: f64 = 26.3;
    /// Lines on their way from one core: the line fill buffers of Skylake, recalled, unverified;
    /// with 10 the bandwidth of 24 storing threads is 9 % too high.
    pub(super) const BUFFERS: usize = 12;
    /// The same of loads, those of its prefetchers included: fitted to one thread's bandwidth.
    pub(super) const LOADS: usize = 13;
    /// A thread's loads reach the controller in any order within this many lines: fitted to 24
    /// threads. Its stores do within all their buffers.
    pub(super) const LOAD_WINDOW: usize = 4;
}

const LINE: u64 = 64;
const MB: u64 = 1 << 20;

/// A figure: ours, and the measured one.
pub(crate) struct Figure {
    pub(crate) group: &'static str,
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) theirs: f64,
}

impl Figure {
    /// How far off ours is, %.
    pub(crate) fn error(&self) -> f64 {
        (self.ours / self.theirs - 1.0) * 100.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Store {
    NonTemporal,
    WriteBack,
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }
}

fn memory(modules: usize) -> MemoryConfig {
    let mut memory = presets::load("optane").expect("a preset").memory;
    memory.home.channels = modules;
    memory
}

fn ns(time: f64) -> Ps {
    Ps::from_ns(time)
}

/// DRAM of the same machine: two channels of DDR4.
fn dram() -> MemoryConfig {
    presets::load("ddr4").expect("a preset").memory
}

/// Dependent loads in random order within `bytes`, ns each.
fn random_loads(memory: &MemoryConfig, bytes: u64) -> f64 {
    let mut controller = Controller::new(memory);
    let mut random = Random(1);
    let lines = bytes / LINE;
    let (mut now, mut from, loads) = (Ps(0), Ps(0), 100_000);
    for page in (0..bytes / 4096).take(40_000) {
        now = controller.read(page * 64, now);
    }
    for i in 0..2 * loads {
        if i == loads {
            from = now;
        }
        now = controller.read(random.below(lines), now) + ns(core::CACHES);
    }
    now.since(from).as_ns() / f64::from(loads)
}

/// Dependent loads one after the other, ns each.
fn sequential_loads(memory: &MemoryConfig) -> f64 {
    let mut controller = Controller::new(memory);
    let mut now = Ps(0);
    for page in 0..1024 {
        now = controller.read(page * 64, now);
    }
    let (from, lines) = (now, 4 * MB / LINE);
    for line in 0..lines {
        now = controller.read(line, now) + ns(core::CACHES);
    }
    now.since(from).as_ns() / lines as f64
}

/// A store to an idle module, until it is durable, ns.
fn idle_store(memory: &MemoryConfig, store: Store) -> f64 {
    let mut controller = Controller::new(memory);
    let mut random = Random(2);
    let (mut now, mut total, stores) = (Ps(0), 0.0, 1000);
    for _ in 0..stores {
        now += ns(10_000.0);
        total += persist(&mut controller, random.below(MB), 1, store, now).since(now).as_ns();
    }
    total / f64::from(stores)
}

/// Stores `lines` lines from `first` on and fences. Returns when that is over.
fn persist(controller: &mut Controller, first: u64, lines: u64, store: Store, now: Ps) -> Ps {
    let (fence, issue, cause) = match store {
        Store::NonTemporal => (core::NTSTORE, core::NTSTORE_ISSUE, Cause::Stream),
        Store::WriteBack => (core::CLWB, core::CLWB_ISSUE, Cause::WriteBack),
    };
    let mut core = Core::new(now);
    for line in first..first + lines {
        let write = controller.write(line, core.now, cause);
        core.on_its_way(write.accepted, ns(issue), core::BUFFERS);
    }
    core.all() + ns(fence)
}

/// A core: its clock, and when its lines on their way are done.
struct Core {
    now: Ps,
    on_way: VecDeque<Ps>,
    last: Ps,
}

impl Core {
    fn new(now: Ps) -> Self {
        Core { now, on_way: VecDeque::new(), last: now }
    }

    /// A line is done at `end`; the core goes on after `issue`, if it has a buffer for the line.
    fn on_its_way(&mut self, end: Ps, issue: Ps, buffers: usize) {
        self.on_way.push_back(end);
        self.last = self.last.max(end);
        self.now += issue;
        if self.on_way.len() >= buffers {
            let first = self.on_way.pop_front().unwrap_or_default();
            self.now = self.now.max(first);
        }
    }

    fn all(&self) -> Ps {
        self.last
    }
}

/// Non-temporal stores in random order within `bytes`, ns each.
fn random_stores(bytes: u64) -> f64 {
    let mut controller = Controller::new(&memory(1));
    let mut random = Random(3);
    let mut order: Vec<u64> = (0..bytes / LINE).collect();
    let mut core = Core::new(Ps(0));
    let (mut from, stores) = (Ps(0), 50_000);
    for i in 0..2 * stores {
        if i == stores {
            from = core.now;
        }
        let at = i % order.len();
        if at == 0 {
            for i in (1..order.len()).rev() {
                order.swap(i, random.below(i as u64 + 1) as usize);
            }
        }
        let write = controller.write(order[at], core.now, Cause::Stream);
        core.on_its_way(write.accepted, ns(core::NTSTORE_ISSUE), core::BUFFERS);
    }
    core.now.since(from).as_ns() / stores as f64
}

/// Flush and fence of `bytes` at random places over six modules, ns.
fn flush_and_fence(store: Store, bytes: u64) -> f64 {
    let mut controller = Controller::new(&memory(6));
    let mut random = Random(4);
    let around = match store {
        Store::NonTemporal => ns(core::NTSTORE_LOOP),
        Store::WriteBack => ns(core::CLWB_LOOP),
    };
    let (mut now, times, lines) = (Ps(0), 4000, bytes / LINE);
    for _ in 0..times {
        let first = random.below(64 * MB / bytes) * lines;
        now = persist(&mut controller, first, lines, store, now + around);
    }
    now.as_ns() / f64::from(times)
}

/// What threads do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Read,
    Write(Store),
}

/// A core that goes through a region of its own.
struct Thread {
    core: Core,
    next: u64,
    /// Lines to access next, in any order.
    window: Vec<u64>,
    /// Lines that it has fetched to store to them, and when they are there.
    fetched: VecDeque<(Ps, u64)>,
    /// Whether it fetches lines to store to them.
    fetches: bool,
}

impl Thread {
    /// When its next action is, and whether that is writing back a fetched line.
    fn next_event(&self) -> (Ps, bool) {
        let Core { now, on_way, .. } = &self.core;
        let room = on_way.len() + self.fetched.len() < core::BUFFERS;
        match (self.fetched.front(), on_way.front()) {
            (Some(&(there, _)), _) if !room || there <= *now => (there, true),
            (None, Some(&end)) if !room && self.fetches => (end.max(*now), false),
            _ => (*now, false),
        }
    }

    /// Any line of the next `window` ones.
    fn draw(&mut self, window: usize, random: &mut Random) -> u64 {
        while self.window.len() < window {
            self.window.push(self.next);
            self.next += 1;
        }
        self.window.swap_remove(random.below(window as u64) as usize)
    }
}

/// In which order a thread's lines reach the controller.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// In any, within its buffers.
    Any,
    /// In the program's.
    Program,
}

/// Threads that each go through a region of their own, GB/s of one module.
fn bandwidth(threads: usize, work: Work, order: Order) -> f64 {
    let (loads, stores) = match order {
        Order::Any => (core::LOAD_WINDOW, core::BUFFERS),
        Order::Program => (1, 1),
    };
    let mut controller = Controller::new(&memory(1));
    let mut random = Random(5);
    let mut threads: Vec<Thread> = (0..threads as u64)
        .map(|i| Thread {
            core: Core::new(Ps(i)),
            next: i * 4 * MB / LINE,
            window: Vec::new(),
            fetched: VecDeque::new(),
            fetches: work == Work::Write(Store::WriteBack),
        })
        .collect();
    let (mut end, mut lines) = (Ps(0), 0);
    while lines < 400_000 {
        let Some(thread) = threads.iter_mut().min_by_key(|thread| thread.next_event()) else {
            return 0.0;
        };
        let (now, fetched) = thread.next_event();
        match work {
            Work::Read => {
                let line = thread.draw(loads, &mut random);
                let done = controller.read(line, now) + ns(core::CACHES);
                thread.core.on_its_way(done, ns(1.0), core::LOADS);
            }
            Work::Write(Store::NonTemporal) => {
                let line = thread.draw(stores, &mut random);
                let done = controller.write(line, now, Cause::Stream).accepted;
                thread.core.on_its_way(done, ns(core::NTSTORE_ISSUE), core::BUFFERS);
            }
            // A store needs its line first.
            Work::Write(Store::WriteBack) if !fetched => {
                let line = thread.draw(loads, &mut random);
                thread.core.now = now;
                thread.core.on_way.retain(|&end| end > now);
                let there = controller.read(line, now);
                let at = thread.fetched.partition_point(|&(time, _)| time <= there);
                thread.fetched.insert(at, (there, line));
                thread.core.now += ns(core::CLWB_ISSUE);
                continue;
            }
            Work::Write(Store::WriteBack) => {
                let (_, line) = thread.fetched.pop_front().unwrap_or_default();
                let done = controller.write(line, now, Cause::WriteBack).accepted;
                thread.core.now = thread.core.now.max(now);
                thread.core.on_its_way(done, ns(0.0), core::BUFFERS);
            }
        }
        end = end.max(thread.core.last);
        lines += 1;
    }
    f64::from(lines) * LINE as f64 / end.as_ns()
}

/// Bytes written to the media for each byte stored, when the first halves and then the second
/// halves of all blocks of a region are stored.
fn amplification(bytes: u64) -> f64 {
    let mut controller = Controller::new(&memory(1));
    let mut core = Core::new(Ps(0));
    for round in 0..400 {
        if round == 100 {
            controller.reset_stats();
        }
        for half in [0, 2] {
            for block in 0..bytes / 256 {
                for line in 0..2 {
                    let write = controller.write(block * 4 + half + line, core.now, Cause::Stream);
                    core.on_its_way(write.accepted, ns(core::NTSTORE_ISSUE), core::BUFFERS);
                }
            }
        }
    }
    controller.stats().home.write_amplification
}

/// One block is overwritten and fenced: overwrites between stalls, and how long one is, us.
fn stalls() -> (f64, f64) {
    let mut controller = Controller::new(&memory(1));
    let (mut now, mut at, mut longest, mut usual) = (Ps(0), Vec::new(), 0.0_f64, 0.0);
    for i in 0..100_000 {
        let end = persist(&mut controller, 0, 4, Store::NonTemporal, now);
        let time = end.since(now).as_ns();
        if time > 10_000.0 {
            at.push(i);
            longest = longest.max(time - usual);
        } else {
            usual = time;
        }
        now = end;
    }
    let between = (at[at.len() - 1] - at[0]) as f64 / (at.len() - 1) as f64;
    (between, longest / 1000.0)
}

/// Every figure.
pub(crate) fn figures() -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut add = |group, name: &str, unit, ours, theirs| {
        figures.push(Figure { group, name: name.to_owned(), unit, ours, theirs });
    };
    let group = "dependent 64 B loads, random, by footprint (LENS)";
    for (name, bytes, theirs) in [
        ("16 KB", 16 << 10, 179.0),
        ("1 MB", MB, 310.0),
        ("16 MB", 16 * MB, 310.0),
        ("128 MB", 128 * MB, 377.0),
        ("1 GB", 1024 * MB, 377.0),
    ] {
        add(group, name, "ns", random_loads(&memory(1), bytes), theirs);
    }
    let group = "non-temporal store of a line, random, by footprint (LENS)";
    for (name, bytes, theirs) in [("4 KB", 4096, 27.0), ("512 KB", MB / 2, 110.0)] {
        add(group, name, "ns", random_stores(bytes), theirs);
    }
    let group = "idle latency (Optane study)";
    for (name, memory, theirs) in
        [("", memory(1), [169.4, 305.0, 90.4, 62.3]), ("DRAM, ", dram(), [81.4, 101.5, 86.9, 57.3])]
    {
        for (what, ours, theirs) in [
            ("sequential read", sequential_loads(&memory), theirs[0]),
            ("random read within 8 MB", random_loads(&memory, 8 * MB), theirs[1]),
            ("ntstore", idle_store(&memory, Store::NonTemporal), theirs[2]),
            ("clwb", idle_store(&memory, Store::WriteBack), theirs[3]),
        ] {
            add(group, &format!("{name}{what}"), "ns", ours, theirs);
        }
    }
    let group = "flush and fence, six modules (Optane study)";
    for (store, bytes, theirs) in [
        (Store::NonTemporal, 64, 124.7),
        (Store::NonTemporal, 128, 134.7),
        (Store::NonTemporal, 256, 212.0),
        (Store::NonTemporal, 512, 304.7),
        (Store::NonTemporal, 1024, 484.0),
        (Store::NonTemporal, 2048, 853.5),
        (Store::NonTemporal, 4096, 1550.6),
        (Store::WriteBack, 64, 116.4),
        (Store::WriteBack, 128, 133.7),
        (Store::WriteBack, 256, 192.5),
        (Store::WriteBack, 512, 327.9),
        (Store::WriteBack, 1024, 601.0),
        (Store::WriteBack, 2048, 1015.2),
        (Store::WriteBack, 4096, 1774.2),
    ] {
        let kind = if store == Store::NonTemporal { "ntstore" } else { "clwb" };
        add(group, &format!("{kind} {bytes} B"), "ns", flush_and_fence(store, bytes), theirs);
    }
    let group = "bandwidth of one module, sequential (Optane study)";
    let nt = Work::Write(Store::NonTemporal);
    let clwb = Work::Write(Store::WriteBack);
    for (name, work, threads, theirs) in [
        ("read", Work::Read, 1, 2.92),
        ("read", Work::Read, 4, 6.52),
        ("read", Work::Read, 12, 5.91),
        ("read", Work::Read, 24, 3.89),
        ("ntstore", nt, 1, 2.22),
        ("ntstore", nt, 4, 2.20),
        ("ntstore", nt, 8, 1.53),
        ("ntstore", nt, 24, 0.80),
        ("clwb", clwb, 2, 1.79),
        ("clwb", clwb, 8, 1.40),
        ("clwb", clwb, 24, 0.82),
    ] {
        let plural = if threads == 1 { "" } else { "s" };
        let name = format!("{name}, {threads} thread{plural}");
        add(group, &name, "GB/s", bandwidth(threads, work, Order::Any), theirs);
    }
    let group = "the same with every thread's lines in order";
    for (name, work, theirs) in
        [("read", Work::Read, 3.89), ("ntstore", nt, 0.80), ("clwb", clwb, 0.82)]
    {
        let ours = bandwidth(24, work, Order::Program);
        add(group, &format!("{name}, 24 threads"), "GB/s", ours, theirs);
    }
    let group = "write amplification by region (Optane study)";
    for (kb, theirs) in [(4, 1.03), (16, 1.04), (18, 1.04), (20, 1.36), (28, 1.74), (64, 2.04)] {
        add(group, &format!("{kb} KB"), "", amplification(kb << 10), theirs);
    }
    let group = "wear levelling (LENS)";
    let (between, long) = stalls();
    add(group, "overwrites of a block between stalls", "", between, 14_300.0);
    add(group, "a stall", "us", long, 52.0);
    figures
}
