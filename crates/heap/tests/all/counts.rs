//! How many instructions and stores a small transaction takes, counted: a time differs from run to run, these do not.
//!
//! Callgrind counts those of the example `swaps`, for two numbers of transactions, whose difference is theirs alone. Both
//! counts include the program's own. The bounds are a few percent above the counts when they were written: where one is
//! exceeded, something has come into every transaction. Lower them when something has gone.

use std::path::Path;
use std::process::Command;

/// Transactions of the two runs: the first is past the beginning, in which locks get their bias.
const RUNS: [u64; 2] = [1_500, 2_500];

/// A kind of transaction, and the most instructions and stores that it may take: as this build is, and as a release is.
struct Bound {
    engine: &'static str,
    swaps: u32,
    how: &'static str,
    debug: (u64, u64),
    release: (u64, u64),
}

const fn bound(
    (engine, swaps, how): (&'static str, u32, &'static str),
    debug: (u64, u64),
    release: (u64, u64),
) -> Bound {
    Bound { engine, swaps, how, debug, release }
}

const BOUNDS: [Bound; 8] = [
    bound(("redo", 1, "handle"), (2_350, 330), (730, 91)),
    bound(("redo", 16, "handle"), (14_550, 1_695), (4_400, 421)),
    bound(("redo", 1, "static"), (2_340, 330), (672, 75)),
    bound(("redo", 16, "static"), (14_290, 1_680), (4_300, 404)),
    bound(("ccstm", 1, "handle"), (3_000, 420), (1_230, 153)),
    bound(("ccstm", 16, "handle"), (21_270, 2_225), (9_450, 942)),
    bound(("undo", 1, "handle"), (3_720, 580), (1_740, 280)),
    bound(("undo", 16, "handle"), (19_760, 2_210), (10_750, 1_260)),
];

/// The instructions and stores of a run of the example.
fn count(folder: &Path, bound: &Bound, transactions: u64) -> (u64, u64) {
    // Examples are built next to the tests.
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().unwrap().parent().unwrap().join("examples/swaps");
    let (pool, counts) = (folder.join("pool"), folder.join("counts"));
    let _ = std::fs::remove_file(&pool);
    let ended = Command::new("valgrind")
        .args(["--tool=callgrind", "--cache-sim=yes"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .args([&example, &pool])
        .args([bound.engine, &bound.swaps.to_string(), &transactions.to_string(), bound.how])
        .output()
        .expect("valgrind starts");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let text = std::fs::read_to_string(&counts).unwrap();
    let line = |start: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(start));
        line.expect("callgrind writes it").split_whitespace().collect::<Vec<_>>()
    };
    let (events, totals) = (line("events: "), line("summary: "));
    let total = |event: &str| {
        let place = events.iter().position(|found| *found == event).expect("it counts this event");
        totals[place].parse::<u64>().unwrap()
    };
    (total("Ir"), total("Dw"))
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the bounds are of x86-64")]
fn a_small_transaction_takes_no_more_than_it_did() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("not measured: there is no valgrind");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut table, mut too_many) = (String::new(), false);
    for bound in &BOUNDS {
        let [few, many] = RUNS.map(|transactions| count(folder.path(), bound, transactions));
        let each = |few: u64, many: u64| (many - few) / (RUNS[1] - RUNS[0]);
        let (instructions, stores) = (each(few.0, many.0), each(few.1, many.1));
        let most = if cfg!(debug_assertions) { bound.debug } else { bound.release };
        let exceeds = instructions > most.0 || stores > most.1;
        too_many |= exceeds;
        table += &format!(
            "{} {} {}: {instructions} instructions of at most {}, {stores} stores of at most {}{}\n",
            bound.engine,
            bound.swaps,
            bound.how,
            most.0,
            most.1,
            if exceeds { " (!)" } else { "" },
        );
    }
    println!("{table}");
    assert!(!too_many, "a transaction takes more than it did:\n{table}");
}
