//! The output of `perdura-lab reproduce`: tables, sentences, JSON.

use super::Report;
use super::accepted::LeftOut;
use super::beside;
use super::calibrate::Calibration;
use super::compare::Comparison;
use super::epochs;
use super::experiment::{Experiment, Paper};
use super::findings::{Figure, MEAN_OF_ACCEPTED};
use super::kind::Kind;
use super::plan::{Part, Place, Plan, Setting};
use super::protocol;
use super::quantity::Quantity;
use super::runs::Cell;
use super::served::BaselineOutcome;
use super::tpcc;
use super::work::{self, Work};
use crate::failure::Outcome;
use crate::output::{narrow, print, table, table_of};
use crate::quantity::{plural, show_count};
use perdura_workloads::list::OPS_PER_TX;

/// Lists the experiments.
pub(crate) fn list(experiments: &[Experiment]) -> Outcome {
    let rows = experiments.iter().map(|experiment| {
        let missing = protocol::missing(experiment);
        let awaits = if missing.is_empty() {
            String::new()
        } else {
            format!("; not all engines or mechanisms are here: {}", missing.join(", "))
        };
        let Paper { title, figure, what, .. } = &experiment.paper;
        [
            experiment.name.clone(),
            format!("{figure}: {what}{awaits}"),
            format!("{} min", experiment.minutes),
            title.clone(),
        ]
    });
    print(narrow(["experiment", "what it shows", "takes about", "paper"], rows))
}

/// The method for figures of this kind.
fn method(kind: Kind) -> &'static str {
    match kind {
        Kind::Throughput => {
            "operations in a second; changes are between runs of the same repetition and seed"
        }
        Kind::Latency => "every operation is timed, which costs each 40 to 50 ns in both engines",
        Kind::Breakdown => {
            "each engine runs normally, and once more on the same memory with write-backs and fences \
             left out and log records stored in the caches: the time saved is that of its persistence \
             operations, shown as a share of what the engine adds to its base, if that is at least 3 %"
        }
        Kind::Flushes => {
            "lines that the engine asked to be written back, or stored past the caches, for each transaction \
             that writes; late requests count in the period in which they are made. The lines that reach \
             memory are another count, which the simulated machine has (memory-writes): it includes evictions, \
             but not lines that are still in the caches at the end"
        }
        Kind::Dirtiness => {
            "bytes stored, in whole words, for each data line written back; log lines are full and not \
             counted; more than 100 % if several transactions wrote to a line before its write-back; \
             the distribution is known only for engines that write lines back at commit"
        }
        Kind::Crash => {
            "at random moments between two transactions the power is cut: dirty lines in the caches are \
             lost; the log is applied, and each line compared with its contents if all caches had survived \
             (inconsistent, if it differs), then checksums find and restore \
             lines; the run goes on as if nothing had happened; counts are of lines, over all cuts"
        }
        Kind::Share => {
            "a run's operations per second, divided by those of the base's run on the same machine with the same seed; \
             a gain is relative to the other engine that the experiment names"
        }
        Kind::Traffic => {
            "bytes written to the simulated memory per byte stored by the program, including the engine's own stores \
             (its log); the count of lines written for a transaction does not depend on these; lines that are still in \
             the caches at the end do not count"
        }
        Kind::Reuse => {
            "operations are drawn as in the workload, and not executed; a scan is an \
             operation on each record that it covers; the load is not counted; for TPC-C, transactions \
             on rows, which are executed without logging; for SQLite, reads of pages from the heap by its page cache, and \
             pages in commits, executed likewise"
        }
        Kind::Checksums => {
            "objects of one size, every line of each stored to, then written back with a fence, or \
             covered by checksums in batches (packed: all objects of a page at once); time and lines \
             for an object, without its stores, of the median batch; changes are against writing back"
        }
    }
}

/// The whole report.
pub(crate) fn text(report: &Report) -> String {
    let Report { experiment, plan, comparisons, machine, .. } = report;
    let means = report.means.iter().chain(&report.accepted_means);
    let figures: &Vec<Figure> = &report.figures.iter().chain(means).cloned().collect();
    let paper = &experiment.paper;
    let mut parts = vec![
        format!(
            "{}: {}, {}\n{}\n{machine}",
            experiment.name, paper.title, paper.figure, paper.what
        ),
        places(report),
        caution(report.plan.quick).to_owned(),
        format!("method: {}", method(plan.kind)),
        calibrated(&report.calibrations),
        measured(report, figures, |place| place != Place::Served),
        epochs::remark(&report.samples),
        beside::text(&report.beside, plan),
    ];
    parts.push(means_over(report));
    parts.extend(
        report
            .server_baseline
            .as_ref()
            .map(|server_baseline| served(server_baseline, report, figures)),
    );
    if comparisons.is_empty() {
        parts.push("the paper's text has no numbers for this".to_owned());
    } else {
        parts.push(compared(comparisons));
        parts.push(verdict(comparisons));
    }
    let notes =
        paper.notes.iter().map(|note| note.split_whitespace().collect::<Vec<_>>().join(" "));
    parts.extend(notes.map(|note| format!("note: {note}")));
    parts.push(match plan.kind {
        Kind::Reuse => "the same seed draws the same operations".to_owned(),
        Kind::Checksums => "the checksums of a thousand pages were checked, and add up".to_owned(),
        _ => "every run's data was checked, and is right".to_owned(),
    });
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// A picture's conditions: the machine and the date, the runs and their seed, the workloads of means.
pub(crate) fn circumstances(report: &Report) -> Vec<String> {
    let mut lines = vec![report.machine.to_string()];
    lines.extend(places(report).lines().map(str::to_owned));
    lines.extend([caution(report.plan.quick).to_owned(), means_over(report)]);
    lines.retain(|line| !line.is_empty());
    lines
}

fn means_over(report: &Report) -> String {
    if report.means.is_empty() {
        return String::new();
    }
    let all = format!("means are over {}", report.plan.mean_over.join(", "));
    let Some(left_out) = &report.left_out else { return all };
    let why = left_out.iter().map(|LeftOut { workload, why }| format!("{workload} ({why})"));
    let why = why.collect::<Vec<_>>().join("; ");
    match left_out.len() {
        0 => format!("{all}; {MEAN_OF_ACCEPTED}: all are what the paper's were"),
        count if count == report.plan.mean_over.len() => {
            format!("{all}; none is what the paper's was: {why}")
        }
        _ => {
            format!("{all}; {MEAN_OF_ACCEPTED} workloads, those like the paper's, leaves out {why}")
        }
    }
}

/// The calibrated figures, by workload.
fn calibrated(calibrations: &[Calibration]) -> String {
    let Some(Calibration { figure, engine, in_checkpoints, wanted, .. }) = calibrations.first()
    else {
        return String::new();
    };
    let rows = calibrations.iter().map(|own| {
        let tried = own.tried.iter().map(|(value, share)| format!("{value}: {share:.3}"));
        let missed = if own.is_reached() { "" } else { ", not reached" };
        let share = format!("{:.3}{missed}", own.share);
        let wanted = format!("{:.3}", own.wanted);
        let setting = own.setting.as_ref().map_or(String::new(), |name| format!(", {name}"));
        let tried = tried.collect::<Vec<_>>().join(", ");
        [format!("{}{setting}", own.workload), own.value.to_string(), share, wanted, tried]
    });
    let what = match in_checkpoints {
        true => "share of time in checkpoints is nearest to the paper's".to_owned(),
        false => format!("share of the base's throughput is nearest to {wanted}"),
    };
    format!(
        "{figure} was found for each workload on {engine} alone: the value with which its {what}; all others are run \
         with that, and are predictions\n{}",
        table(["workload", figure.as_str(), "share", "wanted", "tried"], rows)
    )
}

fn caution(quick: bool) -> &'static str {
    if quick { "quick: too small and too short for the figures to mean anything" } else { "" }
}

fn places(report: &Report) -> String {
    let lines = report.plan.parts.iter().map(|part| {
        let own = part
            .operations_of
            .iter()
            .filter(|(workload, _)| report.plan.workloads.contains(workload))
            .map(|(workload, _)| {
                format!(", {workload} {}", show_count(part.operations_of(workload)))
            });
        let operations = plural(part.operations_of(""), "operation");
        let operations = match report.plan.kind {
            Kind::Checksums => String::new(),
            _ => format!(" ({operations}{})", own.collect::<String>()),
        };
        let cuts = match part.cuts {
            0 => String::new(),
            cuts => format!(", {} each", plural(cuts, "power cut")),
        };
        let sample = report.samples.iter().find(|sample| sample.cell.place == part.place);
        let memory = match part.place {
            Place::Served => report.site.as_str(),
            _ => sample.map_or("", |sample| sample.memory.as_str()),
        };
        format!(
            "{}: {} on {}{operations}{cuts}, seed {}{}{memory}",
            part.place,
            plural(u64::from(part.repetitions), "repetition"),
            data(&report.plan, part),
            report.plan.seed,
            if memory.is_empty() { "" } else { "; " },
        )
    });
    lines
        .chain(unmeasured(&report.plan))
        .chain(report.plan.settings.iter().filter_map(settings))
        .collect::<Vec<_>>()
        .join("\n")
}

/// What does not run natively on this processor, and would on others.
fn unmeasured(plan: &Plan) -> Option<String> {
    let is_native = plan.parts.iter().any(|part| part.place == Place::Native);
    let missing = plan.engines.iter().filter(|own| is_native && own.misses_processor());
    let missing = missing.map(|own| own.name.as_str()).collect::<Vec<_>>().join(", ");
    (!missing.is_empty()).then(|| {
        format!("native: {missing} not measured: this processor has no hardware transactions (RTM)")
    })
}

/// The machine that the workloads run on.
fn data(plan: &Plan, part: &Part) -> String {
    let records = part.extent.records;
    let micro = |name: &String| match plan.work(name) {
        Ok(work @ Work::Micro(_)) => Some((name.clone(), part.sized(&work, None).ok()??)),
        _ => None,
    };
    if plan.kind == Kind::Checksums {
        return plural(records, "object");
    }
    let is_tpcc = |name: &String| work::is_tpcc(name);
    let tpcc::Size { warehouses, rows } = part.extent.tpcc;
    let tables = format!("{} of {} size", plural(warehouses.into(), "warehouse"), rows.name());
    let mut all = Vec::new();
    let micros = plan.workloads.iter().filter_map(micro).filter_map(|(name, choice)| {
        let values = choice.values(1).ok()?;
        let operations = plural(values.optional(OPS_PER_TX).unwrap_or(1), "operation");
        let entries = show_count(values.entries());
        Some(format!("{name} ({entries} entries, {operations} in a transaction)"))
    });
    let micros: Vec<String> = micros.collect();
    let is_database = |name: &&String| part.place.runs(name) && micro(name).is_none();
    let mut here = plan.workloads.iter().filter(is_database);
    if !here.clone().all(is_tpcc) {
        all.push(plural(records, "record"));
    }
    if here.any(is_tpcc) {
        all.push(tables);
    }
    all.extend((!micros.is_empty()).then(|| micros.join(", ")));
    all.join(" and ")
}

/// The settings in words, if there are any.
fn settings(setting: &Setting) -> Option<String> {
    let policy = setting.policy.map(|policy| format!("{policy} in all caches"));
    let per_tx =
        setting.ops_per_tx.map(|ops| plural(ops.into(), "operation") + " in a transaction");
    let size = setting.divided_by.map(|factor| format!("everything {factor} times smaller"));
    let remarks = [setting.window.remark(), setting.tuning.remark(), policy, per_tx, size];
    let sets = setting.sets.iter().map(|(figure, value)| format!("{figure} = {value}"));
    let remarks: Vec<String> = remarks.into_iter().flatten().chain(sets).collect();
    let name = setting.name.as_deref().unwrap_or("set");
    (!remarks.is_empty()).then(|| format!("{name}: {}", remarks.join(", ")))
}

/// A row for each cell in these places, a column for each quantity found there.
fn measured(report: &Report, figures: &[Figure], places: impl Fn(Place) -> bool) -> String {
    let here: Vec<&Figure> = figures.iter().filter(|figure| places(figure.cell.place)).collect();
    let found = |quantity: &Quantity| here.iter().any(|figure| figure.quantity == *quantity);
    let quantities: Vec<Quantity> =
        report.plan.columns.iter().copied().filter(|own| found(own)).collect();
    let mut cells: Vec<&Cell> = Vec::new();
    for figure in here {
        if !cells.contains(&&figure.cell) {
            cells.push(&figure.cell);
        }
    }
    let engines = cells.iter().any(|cell| cell.engine.is_some());
    let settings = cells.iter().any(|cell| cell.setting.is_some());
    let mut header: Vec<String> = ["workload", "where", "threads"].map(str::to_owned).into();
    header.extend(engines.then(|| "engine".to_owned()));
    header.extend(settings.then(|| "setting".to_owned()));
    header.extend(quantities.iter().map(Quantity::to_string));
    let rows = cells.into_iter().map(|cell| {
        let left_out = report.left_out.iter().flatten().any(|own| own.workload == cell.workload);
        let workload = marked(cell.workload.clone(), left_out, LEFT_OUT);
        let mut row = vec![workload, cell.place.to_string(), cell.threads.to_string()];
        let engine = || cell.engine.clone().unwrap_or_else(|| "-".to_owned());
        row.extend(engines.then(|| marked(engine(), has_few_epochs(report, cell), FEW_EPOCHS)));
        row.extend(settings.then(|| cell.setting.clone().unwrap_or_default()));
        row.extend(quantities.iter().map(|quantity| shown(cell, *quantity, figures)));
        row
    });
    table_of(header, rows).to_string()
}

/// The mark of workloads that are not accepted as the paper's.
const LEFT_OUT: &str = "not as the paper's";
/// The mark of runs with too few epochs, and of means over them.
const FEW_EPOCHS: &str = "few epochs";

fn marked(name: String, is_marked: bool, mark: &str) -> String {
    if is_marked { format!("{name} [{mark}]") } else { name }
}

fn has_few_epochs(report: &Report, cell: &Cell) -> bool {
    let of_mean = |mean: &Figure| mean.cell == *cell && mean.few_epochs;
    epochs::few(&report.samples, cell).is_some()
        || report.means.iter().chain(&report.accepted_means).any(of_mean)
}

fn shown(cell: &Cell, quantity: Quantity, figures: &[Figure]) -> String {
    let fits = |figure: &&Figure| figure.quantity == quantity && figure.cell == *cell;
    let Some(Figure { spread, .. }) = figures.iter().find(fits) else { return String::new() };
    let [median, least, most] =
        [spread.median, spread.least, spread.most].map(|v| quantity.show(v));
    // A spread below the displayed precision only makes the table wide.
    if least == most { median } else { format!("{median} ({least} to {most})") }
}

fn compared(comparisons: &[Comparison]) -> String {
    let rows = comparisons.iter().map(|comparison| {
        let quantity = comparison.quantity;
        let tried = comparison.ours.filter(|_| comparison.tried);
        let accepted = comparison.ours_of_accepted.filter(|_| comparison.tried);
        let accepted = accepted.map(|ours| format!(" (of accepted {})", quantity.show(ours)));
        let ours = tried.map(|ours| quantity.show(ours) + accepted.as_deref().unwrap_or(""));
        let difference = match (tried, comparison.bound) {
            (Some(_), _) if comparison.is_missed() => Some("calibrated, not reached".to_owned()),
            (Some(_), _) if comparison.calibrated => Some("calibrated".to_owned()),
            (Some(ours), None) => Some(quantity.show_difference(ours - comparison.paper)),
            (Some(_), Some(_)) => {
                let kept = comparison.matches() == Some(true);
                Some(if kept { "kept" } else { "not kept" }.to_owned())
            }
            (None, _) => None,
        };
        let difference = difference.map(|said| match comparison.few_epochs {
            true => format!("{said} [{FEW_EPOCHS}]"),
            false => said,
        });
        let absent = if comparison.ours.is_some() { "not tried" } else { "not run" };
        [
            comparison.says.clone(),
            comparison.show_place(),
            comparison.show_paper(),
            ours.unwrap_or_else(|| absent.to_owned()),
            difference.unwrap_or_default(),
        ]
    });
    table(["what the paper says", "where", "paper", "ours", "difference"], rows).to_string()
}

fn verdict(comparisons: &[Comparison]) -> String {
    let complaints: Vec<String> = comparisons.iter().filter_map(Comparison::complaint).collect();
    let matching =
        comparisons.iter().filter(|comparison| comparison.matches() == Some(true)).count();
    let left_out = comparisons.iter().filter(|comparison| comparison.ours.is_none()).count();
    let untried = comparisons.iter().filter(|other| other.ours.is_some() && !other.tried).count();
    let untried = match untried {
        0 => String::new(),
        count => format!(", {count} not tried, since nothing was left to the caches there"),
    };
    let missed = comparisons.iter().filter(|other| other.is_missed()).count();
    let calibrated =
        comparisons.iter().filter(|other| other.calibrated && !other.is_missed()).count();
    let calibrated = match calibrated {
        0 => String::new(),
        count => format!(", {count} calibrated, which shows nothing"),
    };
    let missed = match missed {
        0 => String::new(),
        count => format!(", {count} to be calibrated and not reached, which are misses"),
    };
    let few = |other: &&Comparison| other.few_epochs && other.ours.is_some();
    let few_epochs = match comparisons.iter().filter(few).count() {
        0 => String::new(),
        count => {
            let matching = |other: &&Comparison| few(other) && other.matches() == Some(true);
            let matching = comparisons.iter().filter(matching).count();
            format!(
                "; {count} are of runs with few epochs, {matching} of the matching ones among them"
            )
        }
    };
    let mut lines = vec![format!(
        "{matching} of {} values match (within a tenth of the paper's; a bound is kept), {left_out} not \
         run{untried}{calibrated}{missed}{few_epochs}",
        comparisons.len()
    )];
    lines.extend(complaints.iter().map(|complaint| format!("does not match: {complaint}")));
    lines.join("\n")
}

/// The result of the clients' runs through the server.
fn served(server_baseline: &BaselineOutcome, report: &Report, figures: &[Figure]) -> String {
    match server_baseline {
        BaselineOutcome::NotInstalled(why) => {
            format!("through the server: nothing was run ({why})")
        }
        BaselineOutcome::Ran(name) => format!(
            "through the server: YCSB by clients over TCP, each on a connection of its own, waiting for \
             every answer; perdura serve on each engine, and {name}, which syncs its append-only file \
             before every answer, take turns:\n\n{}",
            measured(report, figures, |place| place == Place::Served)
        ),
    }
}
