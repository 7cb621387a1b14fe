//! Times of a whole machine, to the nanosecond, worked out by hand.
//!
//! A cycle is 1 ns. L1 answers after 4 ns and the last cache after 40. Memory takes 125 beyond
//! that: 100 to open a row (which closes at once), 10 for the column, 5 on the bus, and 10 in
//! the controller. A line that is handed over is accepted after 10.

mod common;

use common::mechanisms::small;
use common::timed as config;
use perdura_machine::config::DurableAt;
use perdura_machine::{Hardware, Keep, Machine, MachineConfig, Mechanism, Options, Ps};
use perdura_memory::Memory;
use std::cell::Cell;

const L1: u64 = 4;
const LAST: u64 = 40;
const MISS: u64 = LAST + 125;
const ACCEPT: u64 = 10;
/// A line on the bus, and into its bank.
const TO_MEDIA: u64 = 5 + 50;
/// What a store costs that goes into the buffer.
const ISSUE: u64 = 1;
const WRITE_BACK: u64 = 2;
const TRANSFER: u64 = 20;

fn machine(config: MachineConfig) -> Machine {
    let options = Options { cores: Some(2), ..Options::default() };
    Machine::new(config, &[0; 4096], options)
}

/// How long this takes the running core.
fn took(machine: &Machine, action: impl FnOnce()) -> u64 {
    let before = machine.now();
    action();
    machine.now() - before
}

/// Nothing is on its way any more.
fn rested(machine: &Machine) {
    machine.fence();
    machine.work(10_000);
}

#[test]
fn loads_are_waited_for() {
    let machine = machine(config(4));
    assert_eq!(took(&machine, || _ = machine.load(0)), MISS);
    assert_eq!(took(&machine, || _ = machine.load(8)), L1);
    // L1 has 4 sets of 2 ways: two more lines of this set leave the first to the last cache.
    (1..=2).for_each(|line| _ = machine.load(line * 256));
    assert_eq!(took(&machine, || _ = machine.load(0)), LAST);
}

/// A line that comes does not wait for the one that leaves for it, unless all buffers are taken.
#[test]
fn evicted_lines_leave_behind_the_loads() {
    const SLOW: u64 = 5_000;
    for (buffers, third) in [(3, MISS), (2, SLOW - 2 * MISS)] {
        let mut config = config(0);
        config.memory.controller.static_write_ns = SLOW as f64;
        config.memory.controller.eviction_buffers = buffers;
        let options = Options { cores: Some(2), ..Options::default() };
        let machine = Machine::new(config, &[0; 16 << 10], options);
        // The last cache has 16 sets of 4 ways: these four fill one, and each later line of it
        // pushes one of them out.
        let line = |number: u64| number * 16 * 64;
        (0..4).for_each(|number| machine.store(line(number), 1));
        rested(&machine);
        let loads = [4, 5, 6].map(|number| took(&machine, || _ = machine.load(line(number))));
        assert_eq!(loads, [MISS, MISS, third], "{buffers} buffers");
        let statistics = machine.statistics();
        assert_eq!((statistics.write_backs.evictions, statistics.cores[0].memory_loads), (3, 3));
        assert_eq!(statistics.cores[0].load_stall_ps, Ps((2 * MISS + third) * 1000));
    }
}

#[test]
fn stores_are_waited_for_without_a_buffer() {
    let machine = machine(config(0));
    assert_eq!(took(&machine, || machine.store(0, 1)), MISS);
    assert_eq!(took(&machine, || machine.store(8, 1)), L1);
    assert_eq!(took(&machine, || machine.fence()), 1);
}

#[test]
fn stores_are_not_waited_for_with_a_buffer() {
    let machine = machine(config(2));
    assert_eq!(took(&machine, || machine.store(0, 1)), ISSUE);
    assert_eq!(took(&machine, || machine.store(64, 1)), ISSUE);
    // The buffer is full: room when the first is there.
    assert_eq!(took(&machine, || machine.store(0, 2)), MISS - 2 * ISSUE + ISSUE);
    rested(&machine);
    // A fence waits for a store, and an exchange too, which is then done in L1.
    assert_eq!(took(&machine, || machine.store(2048 + 128, 1)), ISSUE);
    assert_eq!(took(&machine, || machine.fence()), MISS - ISSUE);
    machine.store(3072 + 192, 1);
    assert_eq!(took(&machine, || _ = machine.compare_exchange(0, 2, 3)), MISS - ISSUE + L1);
}

/// A fence waits until the controller has what was written back, and not one cycle longer.
#[test]
fn fences_wait_for_the_acceptance() {
    let machine = machine(config(4));
    _ = machine.load(0);
    machine.store(0, 1);
    assert_eq!(took(&machine, || machine.write_back(0, 8)), WRITE_BACK);
    // The store is in L1 after 4; then the line leaves.
    let left = L1 + ACCEPT - ISSUE - WRITE_BACK;
    assert_eq!(took(&machine, || machine.fence()), left);
    rested(&machine);
    assert_eq!(took(&machine, || machine.stream(64, &[1; 8])), ISSUE);
    assert_eq!(took(&machine, || machine.fence()), ACCEPT - ISSUE);
}

/// Not durable at t - 1, durable at t.
#[test]
fn lines_are_durable_when_they_are_accepted() {
    for (at, more) in [(DurableAt::Queue, 0), (DurableAt::Media, TO_MEDIA)] {
        let mut config = config(4);
        config.memory.controller.durable_at = at;
        let machine = machine(config);
        _ = machine.load(0);
        rested(&machine);
        machine.store(0, 1);
        machine.write_back(0, 8);
        let left = L1 + ACCEPT + more - ISSUE - WRITE_BACK;
        machine.work(left as u32 - 1);
        assert_eq!(machine.power_cut()[0], 0, "{at:?}");
        machine.work(1);
        assert_eq!(machine.power_cut()[0], 1, "{at:?}");
        assert_eq!(took(&machine, || machine.fence()), 1, "{at:?}: there is nothing to wait for");
    }
}

/// A line that a cache has evicted is awaited by the core that writes it back while it is on its way.
#[test]
fn lines_on_their_way_are_awaited() {
    let mut config = config(4);
    config.memory.controller.durable_at = DurableAt::Media;
    let machine = machine(config);
    machine.store(0, 1);
    rested(&machine);
    machine.write_back(0, 8);
    // A second request for it has nothing to write.
    machine.run(vec![
        Box::new(|| {}),
        Box::new(|| {
            assert_eq!(machine.now(), 0, "this core has not done anything yet");
            machine.write_back(0, 8);
            machine.fence();
        }),
    ]);
    assert_eq!(machine.time(), Ps((MISS + 10_000 + ACCEPT + TO_MEDIA) * 1000));
}

#[test]
fn a_write_back_that_drops_the_line_makes_the_next_load_miss() {
    for (keeps, load) in [(true, L1), (false, MISS)] {
        let mut config = config(4);
        config.cores.write_back_keeps = keeps;
        let machine = machine(config);
        machine.store(0, 1);
        machine.write_back(0, 8);
        rested(&machine);
        assert_eq!(took(&machine, || _ = machine.load(0)), load, "{keeps}");
    }
}

#[test]
fn a_write_back_that_waits_is_waited_for() {
    let mut config = config(4);
    config.cores.write_back_waits = true;
    let machine = machine(config);
    machine.store(0, 1);
    rested(&machine);
    assert_eq!(took(&machine, || machine.write_back(0, 8)), ACCEPT);
    assert_eq!(took(&machine, || machine.fence()), 1);
}

#[test]
fn another_cores_line_is_transferred() {
    let machine = machine(config(0));
    let times = [Cell::new(0), Cell::new(0), Cell::new(0)];
    machine.run(vec![
        Box::new(|| {
            machine.store(0, 1);
            machine.work(1000);
            times[2].set(took(&machine, || machine.store(0, 3)));
        }),
        Box::new(|| {
            machine.work(500);
            times[0].set(took(&machine, || _ = machine.load(0)));
            times[1].set(took(&machine, || machine.store(0, 2)));
        }),
    ]);
    let transferred = LAST + TRANSFER;
    // The store finds the line in its own cache and claims it from the other one, which fetches it back at last.
    assert_eq!(times.map(Cell::into_inner), [transferred; 3]);
}

/// Ends of epochs take a microsecond.
struct Slow;

impl Mechanism for Slow {
    fn epoch_is_home(&mut self, hardware: &mut Hardware, home: Ps) {
        hardware.all_wait_until(home + Ps::from_ns(1000.0));
    }
}

#[test]
fn all_cores_wait_for_the_end_of_an_epoch() {
    let options = Options {
        cores: Some(2),
        mechanism: small(|| Slow),
        epoch: Some(Ps::from_ns(5000.0)),
        ..Options::default()
    };
    let machine = Machine::new(config(0), &[0; 4096], options);
    let (first, second) = (Cell::new(0), Cell::new(0));
    machine.run(vec![
        Box::new(|| {
            machine.store(0, 1);
            machine.work(4999 - MISS as u32);
            // One nanosecond early: the epoch goes on.
            assert_eq!(took(&machine, || machine.store(0, 2)), L1);
            // And now it is over. The other core is no further.
            first.set(took(&machine, || machine.store(0, 3)));
        }),
        Box::new(|| {
            machine.store(1024, 1);
            machine.work(5010);
            second.set(machine.now());
        }),
    ]);
    assert_eq!(first.get(), 1000 + L1);
    assert_eq!(second.get(), 4999 + L1 + 1000);
}

/// A preset that keeps no data.
fn preset(name: &str, cores: usize) -> Machine {
    let config = perdura_machine::presets::load(name).expect("a preset");
    let options = Options { cores: Some(cores), keep: Keep::Visible, ..Options::default() };
    Machine::new(config, &[0; 256 << 10], options)
}

/// Where lines are durable at the media, a load waits for the write that its bank has begun, and not for those behind.
#[test]
fn reads_go_before_queued_writes_to_the_media() {
    let machine = preset("loc", 1);
    // Lines go round eight banks.
    let line = |number: u64| number * 8 * 64;
    (0..6).for_each(|number| machine.store(line(number), 1));
    machine.work(10_000);
    let handed = took(&machine, || (0..6).for_each(|number| machine.write_back(line(number), 8)));
    assert_eq!(handed, 6, "a cycle each");
    // The first write is over after 5 + 163; the load opens its row in 163 and sends it in 5. Six cycles are over.
    assert_eq!(took(&machine, || _ = machine.load(line(100))), 168 + 168 - 6);
    // Another bank is free: 1 + 21 to the last cache, 163 + 5.
    assert_eq!(took(&machine, || _ = machine.load(line(101) + 64)), 22 + 168);
    // The fence waits for the times that the lines were given when they were handed over: 6 * 168 from then on.
    let waited = took(&machine, || machine.fence());
    assert_eq!(waited, 6 * 168 - 6 - 330 - 190);
}

/// A queue that is filled to the upper mark sends writes first: down to the lower mark, and 16 at least.
#[test]
fn a_filled_queue_sends_writes_to_the_media_before_reads() {
    let took = |lines: u64| {
        let machine = preset("loc", 1);
        (0..lines).for_each(|line| machine.store(line * 64, 1));
        machine.work(100_000);
        (0..lines).for_each(|line| machine.write_back(line * 64, 8));
        took(&machine, || _ = machine.load(800 * 64))
    };
    // 24 lines, of which the banks have begun eight: 16 wait, fewer than 0.85 * 32 = 27. After 24 cycles the load waits
    // for the write that its bank has begun at 0.
    assert_eq!(took(24), 168 + 168 - 24);
    // 36 lines: 28 wait. Sixteen go first, two in each bank; with those begun, three: 3 * 168.
    assert_eq!(took(36), 3 * 168 + 168 - 36);
}

/// A load of a line whose write waits in the queue is answered from there (as by gem5's controller, which looks there
/// first, and forgets a write once it is sent); once its bank has begun, it waits for the cells.
#[test]
fn a_line_that_is_still_queued_is_read_from_the_queue() {
    let mut config = perdura_machine::presets::load("loc").expect("a preset");
    config.cores.write_back_keeps = false;
    let machine = Machine::new(config, &[0; 4096], Options::default());
    let line = |number: u64| number * 8 * 64;
    (0..6).for_each(|number| machine.store(line(number), 1));
    machine.work(10_000);
    (0..6).for_each(|number| machine.write_back(line(number), 8));
    // 1 + 21 to the controller.
    assert_eq!(took(&machine, || _ = machine.load(line(5))), 22);
    // 168 from when the first write has begun: 6 + 22 of them are over; then the read.
    assert_eq!(took(&machine, || _ = machine.load(line(0))), 168 - 6 - 22 + 168);
}

/// A line that another core has dirty is fetched from it before it is written back.
#[test]
fn a_write_back_goes_to_the_core_that_has_the_line() {
    for (owner, expected) in [(0, 2), (1, 1 + 34 + 34)] {
        let machine = preset("persistence-sync", 2);
        let result = Cell::new(0);
        let stores = || machine.store(0, 1);
        let writes_back = || {
            machine.work(10_000);
            result.set(took(&machine, || {
                machine.write_back(0, 8);
                machine.fence();
            }));
        };
        let programs: [Box<dyn FnOnce()>; 2] = match owner {
            0 => [
                Box::new(|| {
                    stores();
                    writes_back()
                }),
                Box::new(|| ()),
            ],
            _ => [Box::new(writes_back), Box::new(stores)],
        };
        machine.run(programs.into());
        // A cycle for the request; 34 to look into the last cache, and 34 from core to core. Accepted at once.
        assert_eq!(result.get(), expected, "core {owner} has it");
    }
}
