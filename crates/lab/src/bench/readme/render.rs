//! Tables in Markdown.

use super::results::{Row, Run, TableResults};
use crate::failure::{Failure, Outcome};
use crate::quantity::show_count;

/// In place of a figure whose program is not on the machine.
pub(crate) const NOT_MEASURED: &str = "not measured";

/// A table with these columns; the first has no figures.
pub(crate) fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let rule = format!("|{}", "---|".repeat(header.len()));
    let rows = rows.iter().map(|row| line(row));
    [line(header), rule].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// A line of a table, as strings.
pub(crate) fn cells<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).into()
}

/// The missing programs, for each run without figures.
pub(crate) fn missing(results: &TableResults) -> String {
    let line = |run: &Run| {
        let why = run.not_measured.as_ref()?;
        Some(format!("\n\n{}: {NOT_MEASURED}, {why}.", run.name))
    };
    results.runs.iter().filter_map(line).collect()
}

/// The values of a run's rows that `of` returns, each once, in their order.
pub(crate) fn distinct(rows: &[Row], of: fn(&Row) -> &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for name in rows.iter().map(of) {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// The figure `name` of `who` at `what`.
pub(crate) fn figure(run: &Run, what: &str, who: &str, name: &str) -> Outcome<f64> {
    let row = run.rows.iter().find(|row| row.what == what && row.who == who);
    let row = row.ok_or_else(|| Failure::new(format!("{}: no {what} of {who}", run.name)))?;
    Ok(row.figure(name)?.value())
}

/// A count.
pub(crate) fn count(value: f64) -> String {
    show_count(value.round().max(0.0) as u64)
}

/// How our engine is named in README.
pub(crate) fn engine(name: &str) -> String {
    name.strip_prefix("perdura ").map_or_else(|| name.to_owned(), |engine| format!("`{engine}`"))
}

/// The one run of a table.
pub(crate) fn only(results: &TableResults) -> Outcome<&Run> {
    match &results.runs[..] {
        [run] => Ok(run),
        runs => Err(Failure::new(format!("{}: {} runs, not one", results.table, runs.len()))),
    }
}
