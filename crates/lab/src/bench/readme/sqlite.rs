//! The table of SQLite's databases, in pools and its own.

use super::native::row;
use super::render::{self, NOT_MEASURED, cells, count, distinct, engine};
use super::results::{Row, Run, TableResults};
use super::spec::{Scale, Step};
use crate::failure::Outcome;
use crate::quantity::plural;
use serde_json::Value;

pub(super) fn steps(scale: &Scale) -> Vec<Step> {
    if cfg!(not(feature = "sqlite")) {
        return Vec::new();
    }
    let step = |name, programs, (puts, batches), repeat, place, seconds| Step {
        name,
        arguments: format!(
            "bench sqlite --program {programs} --engine redo --puts {puts} --batches {batches} --repeat {repeat} \
             --seed {}{place}",
            scale.seed
        ),
        seconds,
        rows,
    };
    let in_memory = (scale.of(20_000, 100), scale.of(100, 1));
    let on_disk = (scale.of(3_000, 50), 1);
    vec![
        step("in memory", "puts,batches", in_memory, scale.of(3, 1), "", scale.of(25, 5)),
        step("on a disk", "puts", on_disk, scale.of(3, 1), " --dir DISK", scale.of(30, 5)),
    ]
}

fn rows(answer: &Value) -> Option<Vec<Row>> {
    let mut rows = Vec::new();
    for round in answer.get("rounds")?.as_array()? {
        let what = match round.get("program")?.as_str()? {
            "puts" => plural(round.get("threads")?.as_u64()?, "connection"),
            _ => "transactions of 1,000 rows".to_owned(),
        };
        let entrants = answer.get("entrants")?.as_array()?.iter();
        for (entrant, figures) in entrants.zip(round.get("figures")?.as_array()?) {
            // A program that the database is not for.
            if figures.is_null() {
                continue;
            }
            let name = entrant.get("name")?.as_str()?;
            let per_second = ("per_second", figures.get("per_second")?);
            let bytes = figures.get("bytes_each")?;
            let bytes = Some(("bytes", bytes)).filter(|(_, bytes)| !bytes.is_null());
            let figures: Vec<_> = [per_second].into_iter().chain(bytes).collect();
            rows.push(row(what.clone(), name, &figures)?);
        }
    }
    Some(rows)
}

/// Databases are rows; places, and connections that put, are columns.
pub(super) fn render(results: &TableResults) -> Outcome<String> {
    let Some(first) = results.runs.first() else {
        return Ok(format!("SQLite: {NOT_MEASURED}, this program was built without it."));
    };
    let columns: Vec<(&Run, &str)> = results
        .runs
        .iter()
        .flat_map(|run| {
            distinct(&run.rows, |row| &row.what).into_iter().map(move |what| (run, what))
        })
        .collect();
    let mut header = cells(["a second"]);
    header.extend(columns.iter().map(|(run, what)| match *what {
        puts if puts.contains("connection") => format!("puts {}, {puts}", run.name),
        other => format!("{other}, {}", run.name),
    }));
    header.extend(results.runs.iter().map(|run| format!("bytes written for a put {}", run.name)));
    let mut rows = Vec::new();
    for who in distinct(&first.rows, |row| &row.who) {
        let mut cells = vec![engine(who)];
        let show = |run: &Run, what: &str, name: &str| {
            let row = run.rows.iter().find(|row| row.who == who && row.what == what);
            let figure = row.and_then(|row| row.figures.get(name));
            figure.map_or_else(String::new, |figure| count(figure.value()))
        };
        cells.extend(columns.iter().map(|(run, what)| show(run, what, "per_second")));
        let one = plural(1, "connection");
        cells.extend(results.runs.iter().map(|run| show(run, &one, "bytes")));
        rows.push(cells);
    }
    Ok(render::table(&header, &rows) + &render::missing(results))
}
