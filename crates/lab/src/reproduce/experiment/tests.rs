use super::super::catalogue::EXPERIMENTS;
use super::*;
use perdura_fuzz::Mutator;
use perdura_workloads::list::Value;

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
        ("quantity = \"throughput-change\"", "quantity = \"speed\"", "unknown quantity"),
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
        ("seed = 1", "seed = 1\ntuning = { log = \"much\" }", "not a size"),
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
fn reads_runs_of_clients() {
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
    let bytes = |divisor| simulated.machine(1, divisor).expect("a machine").caches[0].bytes;
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

const PROTOCOLS: &str = r#"
    name = "x"
    kind = "share"
    minutes = 1
    [paper]
    title = "T"
    figure = "F"
    what = "W"
    [[paper.value]]
    says = "mean"
    quantity = "gain"
    engine = "strict"
    over = "mean"
    value = 1.0
    [run]
    workloads = ["few", "hash"]
    mean_over = ["hash"]
    sizes = { few = { workload = "sps", entries = 16 }, hash = { ops_per_tx = 3 } }
    engines = ["plain", "s-wal", "strict"]
    protocols = { strict = { engine = "plain", mechanism = "in-order" } }
    base = "plain"
    bases = { strict = "s-wal" }
    seed = 1
    [[run.setting]]
    name = "small"
    ops_per_tx = 2
    sets = { "memory.home.activate_ns" = 30, "cores.fence_cycles" = 2 }
    [run.simulated]
    machine = "loc"
    operations = 10
    repetitions = 1
    calibrate = { figure = "cores.cycles_per_access", values = [1, 8], engine = "s-wal", share = 0.3 }
"#;

#[test]
fn protocols_sizes_and_figures_are_read() {
    let run = Experiment::parse("x", PROTOCOLS).expect("an experiment").run;
    assert_eq!(run.protocols["strict"].epoch_us, 1000);
    assert_eq!(run.sizes["few"].asked(), [("entries".to_owned(), Value::Number(16))].into());
    assert_eq!(run.sizes["hash"].asked(), [("ops-per-tx".to_owned(), Value::Number(3))].into());
    assert_eq!(run.settings[0].sets["memory.home.activate_ns"].to_string(), "30");
    let calibrate = run.simulated.expect("simulated runs").calibrate.expect("a figure");
    assert_eq!((calibrate.values, calibrate.engine), (vec![1, 8], "s-wal".to_owned()));
}

#[test]
fn bad_protocols_sizes_and_figures_say_what_is_wrong() {
    let accepted = |engine: &str, of: &str, range: &str| {
        format!(
            "seed = 1\n[[run.accepted]]\nquantity = \"dram-misses\"\nengine = \"{engine}\"\n\
             of = {of}\n{range}"
        )
    };
    for (old, new, hint) in [
        ("protocols = { strict", "protocols = { redo", "has another engine's name"),
        ("\"in-order\" }", "\"in-order\", epoch_us = 0 }", "1 microsecond"),
        ("few = {", "many = {", "'many' in sizes"),
        ("mean_over = [\"hash\"]", "mean_over = [\"sps\"]", "'sps' in sizes or mean_over"),
        ("entries = 16", "entrys = 16", "no parameter 'entrys': it has entries"),
        ("ops_per_tx = 3", "ops_per_tx = 0", "is 1 to 1000000"),
        ("ops_per_tx = 2", "ops_per_tx = 0", "an operation at least"),
        ("home.activate_ns", "home.colour", "has no figure 'memory.home.colour'"),
        ("activate_ns\" = 30", "activate_ns\" = \"far\"", "memory.home.activate_ns"),
        ("values = [1, 8]", "values = [8, 1]", "values that ascend"),
        ("values = [1, 8]", "values = []", "values that ascend"),
        ("engine = \"s-wal\", share", "engine = \"plain\", share", "which is not the base"),
        ("share = 0.3", "share = 0", "its share"),
        ("cores.cycles_per_access", "cores.cycles", "has no figure 'cores.cycles'"),
        ("seed = 1", "seed = 1\nquantities = [\"p99\"]", "does not find p99"),
        ("seed = 1", "seed = 1\n[[run.compared]]\nquantity = \"p99\"", "does not find p99"),
        (
            "seed = 1",
            "seed = 1\n[[run.compared]]\nquantity = \"share\"\nwith = \"large\"",
            "'large' in compared",
        ),
        ("ops_per_tx = 2", "divided_by = 0", "1 or more"),
        ("seed = 1", "seed = 1\nleft_out = { sps = \"small\" }", "'sps' in accepted or left_out"),
        ("seed = 1", &accepted("strict", "{ sps = 1 }", "points = 1"), "'sps' in accepted"),
        ("seed = 1", &accepted("strict", "{ few = 1 }", ""), "either points or within_percent"),
        ("seed = 1", &accepted("weak", "{ few = 1 }", "points = 1"), "'weak' in accepted is none"),
    ] {
        let complaint = complaint_of(PROTOCOLS, old, new);
        assert!(complaint.contains(hint) && complaint.contains("'x'"), "{complaint}");
    }
    // Engines that this program does not have may be named.
    let later = PROTOCOLS.replace("\"in-order\"", "\"of-tomorrow\"");
    Experiment::parse("x", &later).expect("an experiment");
    let sets = "seed = 1\n[[run.setting]]\nname = \"a\"\nsets = { \"cores.ghz\" = 2.0 }";
    assert!(complaint("seed = 1", sets).contains("sets are of the simulated machine"));
}

#[test]
fn settings_are_steps_on_an_axis() {
    let steps = PROTOCOLS
        .replace("seed = 1", "seed = 1\naxis = \"latency, ns\"")
        .replace("[[run.setting]]", "[[run.setting]]\nat = 30");
    let run = Experiment::parse("x", &steps).expect("an experiment").run;
    assert_eq!((run.axis.as_deref(), run.settings[0].at), (Some("latency, ns"), Some(30.0)));
    for (old, new, hint) in [
        ("axis = \"latency, ns\"", "", "settings on an axis"),
        ("at = 30", "", "needs at"),
        ("at = 30", "at = 0", "above 0"),
        ("kind = \"share\"", "kind = \"throughput\"", "the kinds share and traffic"),
    ] {
        let complaint = complaint_of(&steps, old, new);
        assert!(complaint.contains(hint), "{complaint}");
    }
}

/// Mutations of the built-in experiments; the seed of each is its number (see fuzz/).
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
    for seed in perdura_testing::seeds(0, 300) {
        let bytes = Mutator::new(seed).mutant(&seeds, &words);
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let read = std::panic::catch_unwind(|| Experiment::parse("mutant", &text).map(drop));
        match read {
            Ok(Err(Failure::Message(why))) => assert!(!why.is_empty()),
            Ok(_) => {}
            Err(_) => panic!("PERDURA_TEST_SEED={seed} panics:\n{text}"),
        }
    }
}
