//! The walk is of one moment, whatever is written between its steps.

use super::*;
use crate::command::harness::Bench;
use crate::transfer::export;
use crate::transfer::testing::items;

/// A small generator, for replays by seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Commands with places for two keys and a number.
const COMMANDS: [&str; 24] = [
    "SET # %",
    "SET # a-value-that-does-not-lie-in-the-entry-%",
    "SET # % PXAT 4000000000000",
    "GETSET # %",
    "SETNX # %",
    "APPEND # %",
    "SETRANGE # 5 %",
    "INCRBY # %",
    "MSET # % @ %",
    "DEL #",
    "DEL # @",
    "GETDEL #",
    "HSET # f% % g %",
    "HINCRBY # g 1",
    "HDEL # g",
    "ZADD # % m% 1 n",
    "ZINCRBY # 2.5 n",
    "ZREM # n",
    "ZREMRANGEBYRANK # 0 0",
    "RENAME # @",
    "RENAMENX # @",
    "MOVE # 3",
    "PEXPIREAT # 4000000000%",
    "PERSIST #",
];

fn play(bench: &mut Bench, dice: &mut Dice, keys: u64) {
    let command = COMMANDS[dice.below(COMMANDS.len() as u64) as usize];
    let key = |dice: &mut Dice| format!("key:{}", dice.below(keys));
    let (first, second) = (key(dice), key(dice));
    let number = (100 + dice.below(900)).to_string();
    bench.run(&command.replace('#', &first).replace('@', &second).replace('%', &number));
}

fn step(bench: &mut Bench) -> bool {
    let (heap, save, header) = bench.saving();
    save.walking.step(heap, header).expect("a step")
}

#[test]
fn a_walk_is_of_one_moment() {
    // In the last of them buckets merge under the place where the walk is.
    for seed in (0..12).chain([31]) {
        let (mut bench, mut dice) = (Bench::new(), Dice(seed));
        let keys = 20 + dice.below(600);
        (0..2 * keys).for_each(|_| play(&mut bench, &mut dice, keys));
        let mut before = Vec::new();
        let (heap, save, header) = bench.saving();
        let count = export(heap, &mut before, &mut |_| true).expect("an export");
        save.walking.begin(heap, header, Form::commands()).expect("a walk");
        // Keys become fewer in some runs, and more in others.
        let later = if seed % 2 == 0 { 2 * keys } else { keys };
        while step(&mut bench) {
            (0..dice.below(40)).for_each(|_| play(&mut bench, &mut dice, later));
            for _ in 0..dice.below(keys) * (seed % 3) {
                let key = dice.below(keys);
                bench.run(&format!("DEL key:{key}"));
            }
            // One that was empty, too.
            if seed % 4 == 2 {
                bench.run(["SWAPDB 0 3", "SWAPDB 3 7", "SWAPDB 0 7"][dice.below(3) as usize]);
            }
        }
        let (_, save, _) = bench.saving();
        let mut bytes = Vec::new();
        assert!(save.walking.take(true, &mut bytes).is_ok(), "seed {seed}");
        assert_eq!(items(&bytes), items(&before), "seed {seed}");
        assert_eq!(save.walking.walk().take().expect("a walk").text.keys, count, "seed {seed}");
        bench.check();
    }
}

#[test]
fn a_flush_ends_a_walk() {
    let mut bench = Bench::new();
    (0..200).for_each(|number| drop(bench.run(&format!("SET key:{number} 1"))));
    let (heap, save, header) = bench.saving();
    save.walking.begin(heap, header, Form::commands()).expect("a walk");
    step(&mut bench);
    bench.run("FLUSHDB");
    assert!(!step(&mut bench), "it goes on in what was deleted");
    let (_, save, _) = bench.saving();
    let failed = save.walking.take(false, &mut Vec::new());
    assert!(matches!(failed, Err(WalkError::Flushed)));
}

/// SWAPDB deletes nothing: what the walk has read, and what it has not, is what was there before, and where.
#[test]
fn databases_change_places_under_a_walk() {
    let mut bench = Bench::new();
    for number in 0..400 {
        bench.run(&format!("SET key:{number} {number}"));
        if number % 2 == 0 {
            bench.run(&format!("MOVE key:{number} 9"));
        }
    }
    let (heap, save, header) = bench.saving();
    let mut before = Vec::new();
    export(heap, &mut before, &mut |_| true).expect("an export");
    save.walking.begin(heap, header, Form::commands()).expect("a walk");
    let mut round = 0;
    while step(&mut bench) {
        // Keys of either, under either number, are written before the walk reaches them.
        bench.run("SWAPDB 0 9");
        bench.run(&format!("SET key:{round} other"));
        bench.run(&format!("DEL key:{}", 399 - round));
        if round == 3 {
            bench.run("SWAPDB 0 5");
            bench.run("SET key:7 new");
            bench.run("SWAPDB 5 0");
        }
        round += 1;
    }
    assert!(round > 4, "{round} steps");
    let (_, save, _) = bench.saving();
    let mut bytes = Vec::new();
    save.walking.take(true, &mut bytes).expect("a whole walk");
    assert_eq!(items(&bytes), items(&before));
}
