//! The machines that come with the program.

use perdura_machine::controller::{Cause, Controller};
use perdura_machine::{ConfigError, MachineConfig, Ps, presets};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines")
}

fn all() -> impl Iterator<Item = (&'static str, MachineConfig)> {
    presets::names().map(|name| (name, presets::load(name).unwrap_or_else(|e| panic!("{e}"))))
}

fn table(name: &str) -> Table {
    presets::text(name).unwrap().parse().unwrap()
}

fn parse(table: &Table) -> Result<MachineConfig, ConfigError> {
    MachineConfig::parse("changed", &toml::to_string(table).unwrap())
}

/// Every table in a machine, as paths of keys; elements of arrays by number.
fn tables(table: &Table) -> Vec<Vec<String>> {
    let mut paths = vec![Vec::new()];
    let mut add = |key: &str, inner: &Table| {
        for path in tables(inner) {
            paths.push([vec![key.to_owned()], path].concat());
        }
    };
    for (key, value) in table {
        match value {
            Value::Table(inner) => add(key, inner),
            Value::Array(elements) => {
                for (i, element) in elements.iter().enumerate() {
                    if let Value::Table(inner) = element {
                        add(&format!("{key}/{i}"), inner);
                    }
                }
            }
            _ => {}
        }
    }
    paths
}

fn inner<'a>(mut table: &'a mut Table, path: &[String]) -> &'a mut Table {
    for key in path {
        let value = match key.split_once('/') {
            Some((key, i)) => &mut table[key].as_array_mut().unwrap()[i.parse::<usize>().unwrap()],
            None => &mut table[key.as_str()],
        };
        table = value.as_table_mut().unwrap();
    }
    table
}

#[test]
fn names_are_those_of_the_files_and_in_order() {
    let mut files: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert_eq!(presets::names().collect::<Vec<_>>(), files);
    for (name, machine) in all() {
        assert_eq!(machine.name, name);
        let path = folder().join(format!("{name}.toml"));
        assert_eq!(presets::load(path.to_str().unwrap()).unwrap(), machine);
    }
}

#[test]
fn every_table_of_figures_has_a_source() {
    for name in presets::names() {
        let mut machine = table(name);
        for path in tables(&machine) {
            // The whole, the memory and the mechanisms as a whole, and an energy, which its device's source covers.
            let whole = path.is_empty() || path == ["memory"] || path == ["mechanism"];
            let bare = whole || path.ends_with(&["energy".into()]);
            let table = inner(&mut machine, &path);
            let source = table.get("source").and_then(Value::as_str).unwrap_or_default();
            assert!(bare || source.trim().len() >= 10, "{name}: {path:?} has no source");
        }
    }
}

#[test]
fn unknown_keys_are_refused_everywhere() {
    for name in presets::names() {
        let machine = table(name);
        for path in tables(&machine) {
            let mut changed = machine.clone();
            let colour = Value::Boolean(true);
            // A mechanism's key is its name, and has a table.
            let colour = match path == ["mechanism"] {
                true => Value::Table([("colour".to_owned(), colour)].into_iter().collect()),
                false => colour,
            };
            inner(&mut changed, &path).insert("colour".to_owned(), colour);
            let error = parse(&changed).expect_err("an unknown key").to_string();
            assert!(error.contains("colour"), "{name} {path:?}: {error}");
        }
    }
}

#[test]
fn missing_keys_are_refused_but_for_options() {
    for name in presets::names() {
        let machine = table(name);
        for path in tables(&machine) {
            let mut whole = machine.clone();
            for key in inner(&mut whole, &path).keys().cloned().collect::<Vec<_>>() {
                let mut changed = machine.clone();
                inner(&mut changed, &path).remove(&key);
                let known = [
                    "dram_cache",
                    "victim_blocks",
                    "volatile",
                    "inside",
                    "energy",
                    "write_back_waits",
                    "mechanism",
                    "acknowledged",
                    "waits",
                    "step_cycles",
                    "interrupt_ns",
                ];
                let optional = known.contains(&key.as_str()) || path == ["mechanism"];
                assert_eq!(parse(&changed).is_ok(), optional, "{name} {path:?} {key}");
            }
        }
    }
}

#[test]
fn no_figure_makes_it_panic() {
    let numbers = [
        Value::Float(f64::NAN),
        Value::Float(f64::INFINITY),
        Value::Float(-1.0),
        Value::Float(1e300),
        Value::Float(0.0),
        Value::Integer(0),
        Value::Integer(-1),
        Value::Integer(1),
        Value::Integer(3),
        Value::Integer(63),
        Value::Integer(i64::MAX),
    ];
    for name in ["dual-page", "optane", "pcm-isscc"] {
        let machine = table(name);
        for path in tables(&machine).into_iter().filter(|path| path.starts_with(&["memory".into()]))
        {
            for key in inner(&mut machine.clone(), &path).keys().cloned().collect::<Vec<_>>() {
                for number in &numbers {
                    let mut changed = machine.clone();
                    inner(&mut changed, &path).insert(key.clone(), number.clone());
                    let Ok(machine) = parse(&changed) else { continue };
                    assert!(number.as_float().is_none_or(|n| n.is_finite() && n >= 0.0), "{key}");
                    exercise(&machine);
                }
            }
        }
    }
}

/// Calls of all kinds, near and far.
fn exercise(machine: &MachineConfig) {
    let mut controller = Controller::new(&machine.memory);
    let mut now = Ps(0);
    for i in 0..200_u64 {
        let line = if i % 3 == 0 { i } else { i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 6 };
        let cause = if i % 2 == 0 { Cause::Eviction } else { Cause::WriteBack };
        controller.write(line, now, cause);
        now = controller.read(line ^ 1, now);
    }
    assert!(controller.settle(now) >= now);
    let stats = controller.stats();
    assert_eq!(stats.reads, 200);
    serde_json::to_string(&stats).unwrap();
}

#[test]
fn every_machine_runs() {
    for (_, machine) in all() {
        exercise(&machine);
        assert!(!machine.title.is_empty());
    }
}

#[test]
fn a_file_that_is_not_there_and_a_name_that_is_not_known() {
    let error = presets::load("nowhere.toml").unwrap_err();
    assert!(matches!(error, ConfigError::Unreadable { .. }), "{error}");
    let error = presets::load("optan").unwrap_err().to_string();
    assert!(error.contains("'optan'") && error.contains("optane, pcm"), "{error}");
}

/// An idle read and write as the papers give them, in cycles of 1 GHz.
#[test]
fn idle_latencies_are_the_papers() {
    for (name, read, written) in [
        ("loc", 168, 168),
        ("persistence-sync", 250, 750),
        ("persistence-sync-persistent", 250, 750),
    ] {
        let mut controller = Controller::new(&presets::load(name).unwrap().memory);
        assert_eq!(controller.read(0, Ps(0)), Ps(read * 1000), "{name}");
        let now = Ps(10_000_000);
        let write = controller.write(1, now, Cause::WriteBack);
        let settled = controller.settle(now);
        assert_eq!(settled, now + Ps(written * 1000), "{name}");
        let durable = if name == "loc" { settled } else { now };
        assert_eq!(write.durable, Some(durable), "{name}");
    }
}

/// Dual-Page's Table 4: reads 4.4 times DRAM's 50 ns, writes 12 times; 3.6 and 1.3 GB/s.
#[test]
fn dual_page_has_its_table_4() {
    let mut memory = presets::load("dual-page").unwrap().memory;
    let dram = memory.dram_cache.take().unwrap().device;
    assert_eq!(dram.activate_ns + dram.row_hit_ns + dram.read_burst_ns, 50.0);
    let fixed = memory.controller.static_read_ns;
    let mut controller = Controller::new(&memory);
    assert_eq!(controller.read(0, Ps(0)), Ps::from_ns(220.0 + fixed));
    let bandwidth = |write: bool| {
        let mut controller = Controller::new(&memory);
        let mut end = Ps(0);
        let lines = 20_000;
        for line in 0..lines {
            if write {
                controller.write(line, Ps(0), Cause::Stream);
            } else {
                end = controller.read(line, Ps(0));
            }
        }
        lines as f64 * 64.0 / controller.settle(end).as_ns()
    };
    let (read, write) = (bandwidth(false), bandwidth(true));
    assert!((read - 3.6).abs() < 0.1, "{read}");
    assert!((write - 1.3).abs() < 0.05, "{write}");
}

/// Reads and writes one after the other, as fast as the device takes them.
#[test]
fn bandwidth_is_that_of_the_bus_and_no_more() {
    for (name, machine) in all() {
        let mut memory = machine.memory;
        memory.dram_cache = None;
        if memory.home.inside.is_some() {
            continue;
        }
        let home = &memory.home;
        let peak = home.channels as f64 * 64.0 / home.read_burst_ns;
        let mut controller = Controller::new(&memory);
        let lines = 50_000;
        let end = (0..lines).map(|line| controller.read(line, Ps(0))).max().unwrap_or_default();
        let reached = lines as f64 * 64.0 / end.as_ns();
        assert!(reached <= peak, "{name}: {reached} of {peak} GB/s");
        let banks_keep_up = ["cxl", "ddr4", "ddr5", "dual-page"].contains(&name);
        assert!(!banks_keep_up || reached > 0.8 * peak, "{name}: {reached} of {peak} GB/s");
    }
}
