//! Tables of the simulated machine.

use super::native::row;
use super::render::{self, cells, distinct, figure, only};
use super::results::{Row, TableResults};
use super::spec::{Scale, Step};
use crate::failure::Outcome;
use serde_json::Value;

// LOC's machine.

/// The workloads: in README, on the command line, their sizes, and seconds.
const WORKLOADS: [(&str, &str, &str, u64); 4] = [
    ("SPS", "sps", " --entries 16M", 40),
    ("hash table", "hash", "", 5),
    ("red-black tree", "rbtree", "", 10),
    ("B+ tree", "bptree", "", 10),
];

pub(super) fn loc_steps(scale: &Scale) -> Vec<Step> {
    let steps = WORKLOADS.into_iter().map(|(name, workload, entries, seconds)| {
        let entries = if scale.quick { " --entries 4k" } else { entries };
        Step {
            name,
            arguments: format!(
                "sim --machine loc-clflush --workload {workload}{entries} --engine plain,undo,redo,s-wal --operations {} \
                 --seed {}",
                scale.of(20_000, 500),
                scale.seed
            ),
            seconds: scale.of(seconds, 3),
            rows: loc_rows,
        }
    });
    steps.collect()
}

fn loc_rows(answer: &Value) -> Option<Vec<Row>> {
    let what = answer.get("sim")?.as_str()?;
    let engines = answer.get("engines")?.as_array()?.iter();
    let rows = engines.map(|engine| {
        let name = engine.get("engine")?.as_str()?;
        row(what.to_owned(), name, &[("relative", engine.get("relative_to_baseline")?)])
    });
    rows.collect()
}

pub(super) fn loc(results: &TableResults) -> Outcome<String> {
    let engines: Vec<&str> = results.runs.first().map_or_else(Vec::new, |run| {
        distinct(&run.rows, |row| &row.who).into_iter().filter(|name| *name != "plain").collect()
    });
    let mut header = cells(["throughput relative to `plain`"]);
    header.extend(engines.iter().map(|name| format!("`{name}`")));
    let mut rows = Vec::new();
    for run in &results.runs {
        let mut cells = cells([&run.name]);
        for what in distinct(&run.rows, |row| &row.what) {
            for engine in &engines {
                cells.push(format!("{:.3}", figure(run, what, engine, "relative")?));
            }
        }
        rows.push(cells);
    }
    Ok(render::table(&header, &rows))
}

// Figure 7 of the paper about loose-ordering consistency.

/// The values that the experiment compares, and the columns.
const PROTOCOLS: [(&str, &str); 4] = [
    ("mean of S-WAL", "software logging"),
    ("mean of H-WAL", "write-ahead logging"),
    ("mean of LOC-WAL", "loose ordering"),
    ("mean of LOC-Kiln", "Kiln and loose ordering"),
];

pub(super) fn figure_7_steps(scale: &Scale) -> Vec<Step> {
    let quick = if scale.quick { " --quick" } else { "" };
    vec![Step {
        name: "loc-fig7",
        arguments: format!("reproduce loc-fig7 --out OUT --seed {}{quick}", scale.seed),
        seconds: scale.of(360, 40),
        rows: figure_7_rows,
    }]
}

/// Every value of the paper that was tried; those in README must be there.
fn figure_7_rows(answer: &Value) -> Option<Vec<Row>> {
    let comparisons = answer.get("comparisons")?.as_array()?.iter();
    let rows = comparisons.filter(|one| one.get("ours").is_some_and(Value::is_number));
    let rows = rows.map(|one| {
        let says = one.get("says")?.as_str()?;
        let figures = [("paper", one.get("paper")?), ("ours", one.get("ours")?)];
        row(says.to_owned(), "", &figures)
    });
    let rows: Vec<Row> = rows.collect::<Option<_>>()?;
    let complete = |(says, _): &(&str, &str)| rows.iter().any(|row| row.what == *says);
    PROTOCOLS.iter().all(complete).then_some(rows)
}

pub(super) fn figure_7(results: &TableResults) -> Outcome<String> {
    let run = only(results)?;
    let mut header = cells(["throughput relative to none"]);
    header.extend(PROTOCOLS.map(|(_, column)| column.to_owned()));
    let mut rows = vec![cells(["paper"]), cells(["ours"])];
    for (says, _) in PROTOCOLS {
        rows[0].push(format!("{:.3}", figure(run, says, "", "paper")?));
        rows[1].push(format!("{:.3}", figure(run, says, "", "ours")?));
    }
    Ok(render::table(&header, &rows))
}
