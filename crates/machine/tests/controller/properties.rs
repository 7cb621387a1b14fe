//! Properties of any sequence of calls on any device.

use crate::bench::*;
use perdura_machine::config::{DramCache, DurableAt, Energy, MemoryConfig, Page};
use perdura_machine::controller::{Cause, Controller, ControllerStats};
use perdura_machine::{Ps, presets};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Call {
    Read(u64),
    Write(u64, Cause),
}

fn calls() -> impl Strategy<Value = Vec<(Call, i64)>> {
    let line = prop_oneof![0..32_u64, 0..4096_u64, any::<u64>().prop_map(|line| line >> 8)];
    let cause = prop_oneof![
        Just(Cause::Eviction),
        Just(Cause::WriteBack),
        Just(Cause::Stream),
        Just(Cause::Mechanism)
    ];
    let call = prop_oneof![
        line.clone().prop_map(Call::Read),
        (line, cause).prop_map(|(line, cause)| Call::Write(line, cause))
    ];
    // Clocks of cores differ: a later call may carry an earlier time.
    prop::collection::vec((call, -20_000..100_000_i64), 1..300)
}

/// Plain devices, DRAM in front of NVM, and Optane-like modules.
fn memories() -> impl Strategy<Value = MemoryConfig> {
    let device = (1..4_usize, 1..9_usize, 6..13_u32, any::<bool>(), any::<bool>());
    let queues = (1..9_usize, 1..9_usize, 0.0..1.0_f64, 0.0..1.0_f64, 0..9_usize);
    (device, queues, 0..4_u8).prop_map(|(device, queues, kind)| {
        let (channels, banks, row, closed, through) = device;
        let (reads, writes, one, other, least) = queues;
        let mut memory = dram();
        if kind == 3 {
            memory = presets::load("optane").unwrap().memory;
            memory.home.inside.as_mut().unwrap().wear_moves_after = 3;
        } else {
            memory.home.banks = banks;
            memory.home.row_bytes = 1 << row;
            memory.home.page = if closed { Page::Closed } else { Page::Open };
            memory.home.write_through = through;
        }
        memory.home.channels = channels;
        memory.controller.read_queue = reads;
        memory.controller.write_queue = writes;
        memory.controller.drain_from = f64::max(one, other);
        memory.controller.drain_to = f64::min(one, other);
        memory.controller.drain_least = least;
        memory.home.energy = Some(Energy { read_nj: 1.0, write_nj: 2.0 });
        match kind {
            1 => memory.controller.durable_at = DurableAt::Media,
            2 => {
                memory.dram_cache = Some(DramCache {
                    source: "round".to_owned(),
                    bytes: 8 << row.min(12),
                    ways: if closed { 0 } else { 2 },
                    block_bytes: 1 << row.min(12),
                    lookup_ns: 1.0,
                    victim_blocks: None,
                    device: device_of(banks),
                });
            }
            _ => {}
        }
        memory
    })
}

fn device_of(banks: usize) -> perdura_machine::config::Device {
    let mut device = device();
    device.banks = banks;
    device
}

/// The results of a run.
type Answers = (Vec<(Ps, Option<Ps>)>, Ps, ControllerStats);

fn run(memory: &MemoryConfig, calls: &[(Call, i64)]) -> Answers {
    let mut controller = Controller::new(memory);
    let mut now = Ps(0);
    let mut answers = Vec::new();
    for &(call, step) in calls {
        now = Ps(now.0.saturating_add_signed(step));
        answers.push(match call {
            Call::Read(line) => (controller.read(line, now), None),
            Call::Write(line, cause) => {
                let write = controller.write(line, now, cause);
                (write.accepted, write.durable)
            }
        });
        answers.extend(controller.left_dram().iter().map(|&(_, durable)| (durable, None)));
    }
    let settled = controller.settle(now);
    (answers, settled, controller.stats())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_ends_before_it_can(memory in memories(), calls in calls()) {
        let mut controller = Controller::new(&memory);
        let static_read = Ps::from_ns(memory.controller.static_read_ns);
        let static_write = Ps::from_ns(memory.controller.static_write_ns);
        let burst = Ps::from_ns(memory.home.read_burst_ns);
        let plain = memory.dram_cache.is_none();
        let (mut now, mut last, mut latest) = (Ps(0), Ps(0), Ps(0));
        let (mut reads, mut writes) = (0, 0);
        for (call, step) in calls {
            now = Ps(now.0.saturating_add_signed(step));
            match call {
                Call::Read(line) => {
                    reads += 1;
                    let forwarded = controller.stats().home.forwarded;
                    let there = controller.read(line, now);
                    let queued = controller.stats().home.forwarded > forwarded;
                    prop_assert!(there >= now + static_read);
                    prop_assert!(queued || !plain || there >= now + static_read + burst);
                }
                Call::Write(line, cause) => {
                    writes += 1;
                    let write = controller.write(line, now, cause);
                    prop_assert!(write.accepted >= now + static_write);
                    prop_assert!(write.durable.is_none_or(|durable| durable >= write.accepted));
                    prop_assert_eq!(write.durable.is_none(), !plain && cause == Cause::Eviction);
                    if plain && memory.home.channels == 1 {
                        prop_assert!(write.accepted >= last, "accepted in order");
                        last = write.accepted;
                    }
                    latest = latest.max(write.durable.unwrap_or_default());
                }
            }
            for &(_, durable) in controller.left_dram() {
                prop_assert!(durable >= now);
                latest = latest.max(durable);
            }
        }
        prop_assert!(controller.settle(now) >= latest);
        let stats = controller.stats();
        let causes = stats.writes;
        let handed = causes.evictions + causes.write_backs + causes.streams + causes.mechanism;
        prop_assert_eq!((stats.reads, handed), (reads, writes));
        if plain {
            prop_assert_eq!((stats.home.reads, stats.home.writes), (reads, writes));
        }
        let home = stats.home;
        let wear = home.wear.unwrap();
        let units = if memory.home.inside.is_some() {
            home.media_writes
        } else {
            home.writes - home.coalesced
        };
        prop_assert!((wear.mean * wear.written as f64 - units as f64).abs() < 1e-6);
        prop_assert!(wear.most <= units && wear.mean <= wear.most as f64 + 1e-9);
    }

    #[test]
    fn the_same_calls_get_the_same_answers(memory in memories(), calls in calls()) {
        prop_assert_eq!(run(&memory, &calls), run(&memory, &calls));
    }

    #[test]
    fn a_queue_never_holds_more_than_it_can(writes in 1..9_usize, count in 1..60_u64) {
        // All to one bank: at any time, no more are accepted than have left and fit.
        let mut memory = nvm();
        memory.controller.write_queue = writes;
        let mut controller = Controller::new(&memory);
        for i in 0..count {
            let write = controller.write(i * SAME_BANK, Ps(0), Cause::Stream);
            let left = i.saturating_sub(writes as u64 - 1);
            let least = match left {
                0 => STATIC_WRITE,
                left => STATIC_WRITE + (left - 1) * (BURST + WRITE) + BURST,
            };
            prop_assert_eq!(write.accepted, ns(least));
        }
    }
}

#[test]
fn energy_is_of_what_the_device_did() {
    let mut memory = nvm();
    memory.home.energy = Some(Energy { read_nj: 2.0, write_nj: 30.0 });
    let mut controller = Controller::new(&memory);
    let now = controller.read(0, Ps(0));
    controller.write(1, now, Cause::Stream);
    assert_eq!(controller.stats().home.energy_nj, Some(32.0));
    // A hit in the write queue reads nothing from the device.
    controller.write(2, now, Cause::Stream);
    controller.read(2, now);
    assert_eq!(controller.stats().home.energy_nj, Some(62.0));
    controller.reset_stats();
    assert_eq!(controller.stats().home.energy_nj, Some(0.0));
    assert_eq!(controller.stats().home.wear.unwrap().written, 0);
    let text = serde_json::to_string(&Controller::new(&nvm()).stats()).unwrap();
    assert!(!text.contains("energy"), "{text}");
}
