//! The examples with maps: run, killed, run again, and their maps opened from Rust.

use super::examples::{LINKS, Program, example, open};
use crate::common::Link;
use perdura::TxExt;
use perdura::collections::{Bytes, HashMap, OrderedMap};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

#[test]
fn words_are_counted() {
    for link in LINKS {
        let program = Program::new(&example("words.c"), link);
        let first = program.run_with("to be or\nnot to be\n");
        assert!(first.starts_with("line 1 is durable\nline 2 is durable\n"), "{first}");
        assert!(first.contains("2 to\n") && first.ends_with("6 words, 4 different\n"), "{first}");
        // Some that are longer than the bytes that a map keeps in place, and more than a scan gives at once.
        let many: String = (0..120).map(|i| format!("a-very-long-word-number-{i} ")).collect();
        let second = program.run_with(&format!("{many}\n{many}\nbe\n"));
        assert!(second.contains("3 be\n") && second.contains("2 a-very-long-word-number-0\n"));
        assert!(second.ends_with("247 words, 124 different\n"), "{second}");
        let lines = second.lines().filter(|line| line.contains("-number-")).count();
        assert_eq!(lines, 120, "each word once");
        program.check_pool();
        let pool = open(&program.pool());
        let be = pool.session().unwrap().read(|tx| {
            let words = tx.open::<HashMap<Bytes, u64>>("words")?.expect("the example's map");
            words.get(tx, b"be")
        });
        assert_eq!(be.unwrap(), Some(3));
    }
}

#[test]
fn scores_are_ranked() {
    for link in LINKS {
        let program = Program::new(&example("scores.c"), link);
        let told = program.run_with("ada 7\ngrace 300\nalan 12\nedsger 10\nada 1000\nkurt 9\n");
        let (_, ranking) = told.rsplit_once("is durable\n").unwrap();
        let expected = "1000 ada\n300 grace\n12 alan\nless than ten:\n9 kurt\n5 names\n";
        assert_eq!(ranking, expected);
        assert_eq!(program.run_with(""), expected);
        program.check_pool();
    }
}

#[test]
fn maps_from_rust_are_found_by_c() {
    let program = Program::new(&example("scores.c"), Link::Shared);
    let pool = perdura::Options::new().size(16 << 20).create(program.pool()).unwrap();
    let made = pool.session().unwrap().transaction(|tx| {
        let points = tx.open_or_create::<HashMap<Bytes, u64>>("points")?;
        let ranking = tx.open_or_create::<OrderedMap<Bytes, Bytes>>("ranking")?;
        points.insert(tx, b"barbara", 5)?;
        ranking.insert(tx, b"\0\0\0\0\0\0\0\x05barbara", b"")
    });
    made.unwrap();
    pool.close().unwrap();
    let told = program.run_with("barbara 6\n");
    assert!(told.ends_with("6 barbara\nless than ten:\n6 barbara\n1 names\n"), "{told}");
}

/// Kills the program again and again while it takes lines; how many were acknowledged, and how
/// often it was killed.
fn kill_often(program: &Program, line: impl Fn(usize) -> String) -> (usize, usize) {
    let (mut acknowledged, kills) = (0, [1, 30, 5, 90]);
    for kill_after in kills {
        let mut command = program.command(&[]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut durable = out.filter(|line| line.ends_with("is durable"));
        // More than are waited for, and few enough for the pipe.
        for number in 0..kill_after + 20 {
            stdin.write_all(line(acknowledged + number).as_bytes()).unwrap();
        }
        assert_eq!(durable.by_ref().take(kill_after).count(), kill_after);
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged += kill_after + durable.count();
        program.check_pool();
    }
    (acknowledged, kills.len())
}

#[test]
fn counts_survive_kills() {
    let program = Program::new(&example("words.c"), Link::Shared);
    let (lines, kills) = kill_often(&program, |_| "to be or not to be\n".to_owned());
    let told = program.run_with("");
    let words: usize = told.lines().last().unwrap().split(' ').next().unwrap().parse().unwrap();
    // One more line may be durable, and not acknowledged, at each kill; never half of one.
    assert!(words.is_multiple_of(6) && (lines..=lines + kills).contains(&(words / 6)), "{told}");
    assert!(told.ends_with("4 different\n"), "{told}");
}

#[test]
fn rankings_survive_kills() {
    let program = Program::new(&example("scores.c"), Link::Shared);
    // The same few names over and over: each score is a removal and an insertion.
    kill_often(&program, |number| format!("player-{} {number}\n", number % 7));
    let told = program.run_with("");
    assert!(told.ends_with("7 names\n"), "{told}");
}
