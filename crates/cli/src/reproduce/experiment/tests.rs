use super::super::catalogue::EXPERIMENTS;
use super::*;
use perdura_fuzz::{Mutator, rounds};

const GOOD: &str = r#"
    name = "x"
    kind = "throughput"
    minutes = 1
    [paper]
    title = "T"
    figure = "F"
    what = "W"
    [[paper.value]]
    says = "mean"
    quantity = "throughput-change"
    engine = "redo"
    over = "mean"
    value = 1.0
    [run]
    native = true
    workloads = ["ycsb-a"]
    engines = ["undo", "redo"]
    base = "undo"
    records = 10
    operations = 10
    repetitions = 1
    seed = 1
"#;

fn complaint(old: &str, new: &str) -> String {
    complaint_of(GOOD, old, new)
}

fn complaint_of(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "{old}");
    match Experiment::parse("x", &text.replace(old, new)) {
        Err(Failure::Message(text)) => text,
        other => panic!("{old} -> {new}: {other:?}"),
    }
}

#[test]
fn a_good_one_is_read() {
    let experiment = Experiment::parse("x", GOOD).expect("an experiment");
    assert_eq!(experiment.run.threads, [1]);
    assert_eq!(experiment.paper.values[0].over, Some(Over::Mean));
}

#[test]
fn bad_ones_say_what_is_wrong() {
    for (old, new, hint) in [
        ("minutes = 1", "minutes = 1\ncolour = 2", "colour"),
        ("[run]", "[run]\nspeed = 2", "speed"),
        ("says = \"mean\"", "says = \"mean\"\nsaid = 1", "said"),
        ("kind = \"throughput\"", "kind = \"thruput\"", "throughput"),
        ("quantity = \"throughput-change\"", "quantity = \"gain\"", "unknown quantity"),
        ("quantity = \"throughput-change\"", "quantity = \"p99\"", "does not find p99"),
        ("over = \"mean\"", "", "needs a workload, or over"),
        ("over = \"mean\"", "over = \"sum\"", "mean"),
        ("base = \"undo\"", "base = \"s-wal\"", "none of its engines"),
        ("base = \"undo\"", "", "base engine"),
        ("engine = \"redo\"", "engine = \"swal\"", "none of its engines"),
        ("name = \"x\"", "name = \"../x\"", "letters, digits"),
        ("seed = 1", "seed = 1\nbases = { redo = \"none\" }", "none of its engines"),
        ("seed = 1", "seed = 1\nbase_of = { tpcc = \"undo\" }", "none of its workloads"),
        (
            "workloads = [\"ycsb-a\"]\n    engines = [\"undo\", \"redo\"]\n    base = \"undo\"",
            "workloads = [\"tpcc\"]\n    engines = [\"plain\", \"redo\"]\n    base = \"plain\"",
            "cannot roll back, as tpcc does",
        ),
        ("native = true", "", "native or simulated"),
        ("seed = 1", "seed = 1\nwindow = 0", "or all"),
        ("seed = 1", "seed = 1\ntuning = { log = \"much\" }", "no size"),
        ("seed = 1", "seed = 1\ntpcc = { warehouses = 0, rows = \"full\" }", "warehouse"),
        ("seed = 1", "seed = 1\n[[run.setting]]\nname = \"\"", "a name of its own"),
        ("kind = \"throughput\"", "kind = \"checksums\"", "checksums"),
        ("records = 10", "records = 0", "1 or more"),
        ("seed = 1", "seed = 1\nthreads = []", "1 to 256"),
        ("workloads = [\"ycsb-a\"]", "workloads = []", "a workload"),
        ("seed = 1", "seed = 1\n[run.served]\nrival = \"sqlite\"", "redis-aof"),
        (
            "[run]",
            "[[paper.value]]\nsays = \"r\"\nquantity = \"rival-change\"\nover = \"mean\"\nvalue = 1\n[run]",
            "needs [run.served]",
        ),
        (
            "seed = 1",
            "seed = 1\n[run.simulated]\nmachine = \"moon\"\nrecords = 1\noperations = 1\nrepetitions = 1",
            "no machine 'moon'",
        ),
    ] {
        let complaint = complaint(old, new);
        assert!(complaint.contains(hint) && complaint.contains("'x'"), "{complaint}");
    }
}

#[test]
fn what_clients_run_is_read() {
    let served = "seed = 1\n[run.served]\nrival = \"redis-aof\"\nclients = [1, 8]\nrecords = 9\n\
                  operations = 9\nrepetitions = 1";
    let text = GOOD.replace("seed = 1", served);
    let experiment = Experiment::parse("x", &text).expect("an experiment");
    assert_eq!(experiment.run.served.map(|served| served.clients), Some(vec![1, 8]));
    for (old, new, hint) in [
        ("records = 9", "records = 0", "1 or more"),
        ("clients = [1, 8]", "clients = [0]", "clients must be from 1 to 256"),
        ("[run.served]", "[[run.setting]]\nname = \"s\"\n[run.served]", "without settings"),
        ("[run.served]", "base_of = { ycsb-a = \"redo\" }\n[run.served]", "not for served"),
    ] {
        let complaint = complaint_of(&text, old, new);
        assert!(complaint.contains(hint), "{complaint}");
    }
}

const CRASH: &str = r#"
    name = "x"
    kind = "crash"
    minutes = 1
    [paper]
    title = "T"
    figure = "F"
    what = "W"
    [[paper.value]]
    says = "none"
    quantity = "uncorrected"
    over = "most"
    setting = "LRU"
    value = 0
    [run]
    workloads = ["ycsb-a"]
    engines = ["archapt-undo-sum"]
    seed = 1
    [[run.setting]]
    name = "LRU"
    policy = "lru"
    [run.simulated]
    machine = "archapt"
    records = 10
    operations = 10
    repetitions = 1
    cuts = 2
    caches_divided_by = 8
    [quick]
"#;

#[test]
fn power_cuts_are_read() {
    let experiment = Experiment::parse("x", CRASH).expect("an experiment");
    assert_eq!(experiment.run.settings[0].policy, Some(Policy::Lru));
    let simulated = experiment.run.simulated.expect("simulated runs");
    let bytes = |divisor| simulated.machine(divisor).expect("a machine").caches[0].bytes;
    assert_eq!(bytes(1), 8 * bytes(8));
}

#[test]
fn bad_power_cuts_say_what_is_wrong() {
    for (old, new, hint) in [
        ("cuts = 2", "", "cuts = 100"),
        ("[quick]", "[quick]\ncuts = 0", "cuts = 100"),
        ("cuts = 2", "cuts = 2\ncores = [2]", "1 core"),
        ("seed = 1", "seed = 1\nnative = true\nrecords = 1", "no native runs"),
        ("archapt-undo-sum", "archapt-undo", "archapt-redo-sum"),
        ("policy = \"lru\"", "policy = \"mru\"", "mru"),
        ("setting = \"LRU\"", "setting = \"FIFO\"", "none of its settings"),
        ("divided_by = 8", "divided_by = 0", "cannot be divided by 0"),
        ("divided_by = 8", "divided_by = 7", "cannot be divided by 7"),
    ] {
        let complaint = complaint_of(CRASH, old, new);
        assert!(complaint.contains(hint) && complaint.contains("'x'"), "{complaint}");
    }
    let simulated =
        "[run.simulated]\nmachine = \"tiny\"\nrecords = 1\noperations = 1\nrepetitions = 1";
    let with_cuts = format!("seed = 1\n{simulated}\ncuts = 1");
    assert!(complaint("seed = 1", &with_cuts).contains("kind crash only"));
    let policy = "seed = 1\n[[run.setting]]\nname = \"a\"\npolicy = \"lru\"";
    assert!(complaint("seed = 1", policy).contains("simulated caches"));
}

/// Mutants of the experiments that are built in; the seed of each is its number (see fuzz/).
#[test]
fn mutants_are_read_or_refused() {
    let words = [
        "\"all\"",
        "true",
        "[]",
        "[[run.settings]]\n",
        "[run.simulated]\n",
        "[run.served]\n",
        "1e9",
    ];
    let seeds: Vec<Vec<u8>> =
        EXPERIMENTS.iter().map(|(_, text)| text.as_bytes().to_vec()).collect();
    for seed in rounds(300) {
        let bytes = Mutator::new(seed).mutant(&seeds, &words);
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let read = std::panic::catch_unwind(|| Experiment::parse("mutant", &text).map(drop));
        match read {
            Ok(Err(Failure::Message(why))) => assert!(!why.is_empty()),
            Ok(_) => {}
            Err(_) => panic!("PERDURA_FUZZ_SEED={seed} panics:\n{text}"),
        }
    }
}
