//! `perdura-lab sim --trace`: the accesses of another program on a simulated machine.

use super::Arguments;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::quantity::{plural, show_bytes, show_count, show_ns};
use crate::simulate::{LARGEST, keep};
use perdura_machine::trace::{PageMap, Steps, replay};
use perdura_machine::{Machine, MachineConfig, Options, Ps, Statistics};
use perdura_memory::WORD;
use perdura_workloads::Progress;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Steps between two looks at whether Ctrl-C was pressed.
const SOME: u64 = 1 << 16;

pub(super) fn run(
    arguments: &Arguments,
    files: &[PathBuf],
    machine: MachineConfig,
    progress: &Progress,
) -> Outcome {
    let mut pages = PageMap::default();
    for path in files {
        each_step(path, progress, |step, _| pages.note(step))?;
    }
    if pages.bytes() > LARGEST {
        return Err(Failure::new(format!(
            "the trace touches {}, and a simulated machine may have {}: cut the trace",
            show_bytes(pages.bytes()),
            show_bytes(LARGEST)
        )));
    }
    let plain = arguments.mechanism.is_plain();
    let options = Options {
        cores: Some(files.len()),
        limit: pages.bytes(),
        seed: arguments.seed,
        keep: keep(arguments.cuts),
        mechanism: arguments.mechanism.design(&machine, files.len())?,
        epoch: (!plain).then(|| Ps::from_ns(arguments.epoch_us as f64 * 1000.0)),
        ..Options::default()
    };
    let simulated =
        Machine::from_words(machine.clone(), vec![0; (pages.bytes() / WORD) as usize], options);
    let start = std::time::Instant::now();
    let steps = replay_all(&simulated, files, &pages, progress)?;
    let seconds = start.elapsed().as_secs_f64();
    show(arguments, files, &machine, &simulated.statistics(), (steps, pages.bytes(), seconds))
}

/// Replays each file on a core of its own. Steps in all.
fn replay_all(
    machine: &Machine,
    files: &[PathBuf],
    pages: &PageMap,
    progress: &Progress,
) -> Outcome<u64> {
    let (failure, done) = (RefCell::new(None), Cell::new(0));
    let program = |path: &PathBuf| {
        let (path, failure, done) = (path.clone(), &failure, &done);
        Box::new(move || {
            let replayed = each_step(&path, progress, |step, number| {
                replay(machine, pages, step, number);
                done.set(done.get() + 1);
            });
            if let Err(error) = replayed {
                failure.borrow_mut().get_or_insert(error);
            }
        }) as Box<dyn FnOnce() + '_>
    };
    machine.run(files.iter().map(program).collect());
    match failure.into_inner() {
        Some(error) => Err(error),
        None => Ok(done.get()),
    }
}

/// Calls `each` with every step of a file, and its number from 1 on.
fn each_step(
    path: &Path,
    progress: &Progress,
    mut each: impl FnMut(perdura_machine::trace::Step, u64),
) -> Outcome {
    let file = File::open(path).map_err(|error| Failure::at(path, error))?;
    for (step, number) in Steps::new(BufReader::new(file)).zip(1_u64..) {
        if number.is_multiple_of(SOME) && progress.is_stopped() {
            return Err(Failure::Interrupted);
        }
        each(step.map_err(|error| Failure::at(path, error))?, number);
    }
    Ok(())
}

fn show(
    arguments: &Arguments,
    files: &[PathBuf],
    machine: &MachineConfig,
    statistics: &Statistics,
    (steps, bytes, seconds): (u64, u64, f64),
) -> Outcome {
    let names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
    if arguments.json {
        return output::print_json(&json!({
            "traces": names,
            "steps": steps,
            "bytes_touched": bytes,
            "seed": arguments.seed,
            "configuration": machine,
            "machine": statistics,
        }));
    }
    output::print(format!(
        "{} on {} ({}), {}, caches empty at first; mechanism {}; seed {}",
        names.join(", "),
        machine.name,
        machine.title,
        plural(files.len() as u64, "core"),
        statistics.mechanism,
        arguments.seed,
    ))?;
    let rows = statistics.cores.iter().enumerate().map(|(core, stats)| {
        let share = |part: Ps| part.0 as f64 / stats.time_ps.0.max(1) as f64 * 100.0;
        [
            core.to_string(),
            show_ns(stats.time_ps.0 as f64 / 1000.0),
            show_count(stats.loads),
            show_count(stats.stores),
            show_count(stats.write_backs),
            show_count(stats.fences),
            format!("{:.1} %", share(stats.load_stall_ps)),
            format!("{:.1} %", share(stats.fence_stall_ps)),
        ]
    });
    let header =
        ["core", "time", "loads", "stores", "write-backs", "fences", "in loads", "in fences"];
    output::print(output::table(header, rows))?;
    let levels = statistics.caches.levels.iter().enumerate().map(|(index, level)| {
        let misses = level.misses as f64 / (level.hits + level.misses).max(1) as f64 * 100.0;
        format!("level {}: {misses:.2} % misses", index + 1)
    });
    let home = &statistics.memory.home;
    output::print(format!(
        "{}; memory: {} lines read, {} written",
        levels.collect::<Vec<_>>().join(", "),
        show_count(home.reads),
        show_count(home.writes),
    ))?;
    let checkpoints = &statistics.checkpoints;
    if checkpoints.epochs > 0 {
        output::print(format!(
            "{}: {:.2} % of the time; {} lines of the program went home in them, {} were the mechanism's own",
            plural(checkpoints.epochs, "checkpoint"),
            statistics.checkpoint_share() * 100.0,
            show_count(checkpoints.lines),
            show_count(checkpoints.mechanism_lines),
        ))?;
    }
    output::print(format!(
        "verdict: {} on {} took {} simulated, {seconds:.2} s to simulate",
        plural(steps, "step"),
        show_bytes(bytes),
        show_ns(statistics.time_ns),
    ))
}
