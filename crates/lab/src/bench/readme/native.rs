//! Tables of benchmarks on this machine.

use super::render::{self, NOT_MEASURED, cells, count, distinct, engine, figure, only};
use super::results::{Figure, Row, Run, TableResults};
use super::spec::{Scale, Step};
use crate::bench::spread::Spread;
use crate::failure::Outcome;
use crate::quantity::{plural, show_bytes, show_count, show_ns};
use serde_json::Value;

/// A row of figures, some of which may be missing in the JSON.
pub(super) fn row(what: String, who: &str, figures: &[(&str, &Value)]) -> Option<Row> {
    let figure = |&(name, value): &(&str, &Value)| {
        let figure: Figure = serde_json::from_value(value.clone()).ok()?;
        Some((name.to_owned(), figure))
    };
    let figures = figures.iter().map(figure).collect::<Option<_>>()?;
    Some(Row { what, who: who.to_owned(), figures })
}

// Against libpmemobj.

pub(super) fn pmemobj_steps(scale: &Scale) -> Vec<Step> {
    let (operations, repeat) = (scale.of(1_000_000, 2_000), scale.of(3, 1));
    vec![Step {
        name: "libpmemobj",
        arguments: format!(
            "bench versus --only pmemobj --engine volatile,undo,redo --operations {operations} --entries {operations} \
             --repeat {repeat} --seed {}",
            scale.seed
        ),
        seconds: scale.of(150, 5),
        rows: pmemobj_rows,
    }]
}

fn pmemobj_rows(answer: &Value) -> Option<Vec<Row>> {
    let contest = answer.get("embedded")?;
    let competitors: Vec<&str> = texts(contest.get("competitors")?)?;
    let mut rows = vec![row(FENCE.to_owned(), "", &[("ns", contest.get("line_and_fence_ns")?)])?];
    for round in contest.get("rounds")?.as_array()? {
        let number = |name: &str| round.get("size")?.get(name)?.as_u64();
        let (entries, width) = (number("entries")?, number("width")?);
        let what = match round.get("work")?.as_str()? {
            "sps" if width == 1 => format!("swap of two words in {} (SPS)", show_count(entries)),
            "sps" => plural(width, "swap"),
            "map" => "hash map, inserts and removals".to_owned(),
            "ordered" => "ordered map, the same".to_owned(),
            _ => format!("{} overwritten", show_bytes(width)),
        };
        let times = round.get("ns_per_operation")?.as_array()?;
        for (who, time) in competitors.iter().zip(times) {
            rows.push(row(what.clone(), who, &[("ns", time)])?);
        }
    }
    Some(rows)
}

/// The subject of a row of the baseline.
const FENCE: &str = "one line written back and a fence";

pub(super) fn pmemobj(results: &TableResults) -> Outcome<String> {
    let run = only(results)?;
    let mut header = cells([""]);
    if run.not_measured.is_some() {
        return Ok(format!("libpmemobj: {NOT_MEASURED}.") + &render::missing(results));
    }
    let work: Vec<Row> = run.rows.iter().filter(|row| row.what != FENCE).cloned().collect();
    let programs = distinct(&work, |row| &row.who);
    let (theirs, ours) = (programs[0], programs[programs.len() - 1]);
    header.extend(programs.iter().map(|name| engine(name)));
    header.push(format!("{}, times as fast", engine(ours)));
    let mut rows = Vec::new();
    for what in distinct(&work, |row| &row.what) {
        let mut cells = cells([what]);
        for who in &programs {
            cells.push(show_ns(figure(run, what, who, "ns")?));
        }
        let ratio = figure(run, what, theirs, "ns")? / figure(run, what, ours, "ns")?;
        cells.push(format!("{ratio:.2}"));
        rows.push(cells);
    }
    let fence = show_ns(figure(run, FENCE, "", "ns")?);
    let widest = widest(&work).unwrap_or_default();
    Ok(format!(
        "{}\n\nOne line written back and a fence took {fence}.{widest}",
        render::table(&header, &rows)
    ))
}

/// The figure with the largest variation, relative to its minimum.
fn widest(rows: &[Row]) -> Option<String> {
    let spreads = rows.iter().filter_map(|row| match row.figures.get("ns")? {
        Figure::Spread(spread) if spread.most > spread.least => Some((row, *spread)),
        _ => None,
    });
    let ratio = |spread: &Spread| spread.most / spread.least;
    let (row, spread) = spreads.max_by(|(_, a), (_, b)| ratio(a).total_cmp(&ratio(b)))?;
    let [least, most] = [spread.least, spread.most].map(show_ns);
    Some(format!(" What varied most: {}, {}: {least} to {most}.", engine(&row.who), row.what))
}

// Embedded stores.

pub(super) fn stores_steps(scale: &Scale) -> Vec<Step> {
    let repeat = scale.of(3, 1);
    let step = |name, place, puts, seconds| Step {
        name,
        arguments: format!(
            "bench versus --only stores --puts {puts} --repeat {repeat} --seed {}{place}",
            scale.seed
        ),
        seconds,
        rows: stores_rows,
    };
    vec![
        step("in memory", "", scale.of(20_000, 200), scale.of(40, 5)),
        step("on a disk", " --dir DISK", scale.of(4_000, 100), scale.of(100, 10)),
    ]
}

fn stores_rows(answer: &Value) -> Option<Vec<Row>> {
    let contest = answer.get("stores")?;
    let mut rows = Vec::new();
    for round in contest.get("rounds")?.as_array()? {
        let what = plural(round.get("threads")?.as_u64()?, "thread");
        let entrants = contest.get("entrants")?.as_array()?.iter();
        for (entrant, figures) in entrants.zip(round.get("stores")?.as_array()?) {
            let name = entrant.get("name")?.as_str()?;
            rows.push(row(what.clone(), name, &[("per_second", figures.get("per_second")?)])?);
        }
    }
    Some(rows)
}

/// Stores are rows; places and threads are columns.
pub(super) fn stores(results: &TableResults) -> Outcome<String> {
    let measured: Vec<&Run> =
        results.runs.iter().filter(|run| run.not_measured.is_none()).collect();
    let Some(first) = measured.first() else {
        return Ok(format!("Embedded stores: {NOT_MEASURED}.") + &render::missing(results));
    };
    let mut header = cells(["durable puts a second"]);
    for run in &measured {
        let threads = distinct(&run.rows, |row| &row.what);
        header.extend(threads.iter().map(|what| format!("{}, {what}", run.name)));
    }
    let mut rows = Vec::new();
    for who in distinct(&first.rows, |row| &row.who) {
        let mut cells = vec![engine(who)];
        for run in &measured {
            for what in distinct(&run.rows, |row| &row.what) {
                cells.push(count(figure(run, what, who, "per_second")?));
            }
        }
        rows.push(cells);
    }
    Ok(render::table(&header, &rows) + &render::missing(results))
}

// Redis.

pub(super) fn redis_steps(scale: &Scale) -> Vec<Step> {
    let (requests, repeat) = (scale.of(40_000, 1_000), scale.of(3, 1));
    let step = |name, place, seconds| Step {
        name,
        arguments: format!(
            "bench versus --only redis --clients 1,50 --requests {requests} --keys {requests} --repeat {repeat} \
             --seed {}{place}",
            scale.seed
        ),
        seconds,
        rows: redis_rows,
    };
    vec![step("tmpfs", "", scale.of(50, 10)), step("disk", " --dir DISK", scale.of(100, 15))]
}

fn redis_rows(answer: &Value) -> Option<Vec<Row>> {
    let race = answer.get("servers")?;
    let servers = texts(race.get("servers")?)?;
    let mut rows = Vec::new();
    for load in race.get("loads")?.as_array()? {
        let number = |name: &str| load.get(name)?.as_u64();
        let (clients, pipeline) = (number("clients")?, number("pipeline")?);
        let request = load.get("request")?.as_str()?.to_uppercase();
        let mut what = format!("{request}, {}", plural(clients, "client"));
        if pipeline > 1 {
            what += &format!(", pipeline {pipeline}");
        }
        for (who, figures) in servers.iter().zip(load.get("servers")?.as_array()?) {
            let figures =
                ["per_second", "p99_ms"].map(|name| figures.get(name).map(|value| (name, value)));
            let [rate, tail] = figures;
            rows.push(row(what.clone(), who, &[rate?, tail?])?);
        }
    }
    Some(rows)
}

/// Loads are rows; each run has a column for each server, and one for the ratio.
pub(super) fn redis(results: &TableResults) -> Outcome<String> {
    let measured: Vec<&Run> =
        results.runs.iter().filter(|run| run.not_measured.is_none()).collect();
    let Some(first) = measured.first() else {
        return Ok(format!("Redis: {NOT_MEASURED}.") + &render::missing(results));
    };
    let mut header = cells(["requests a second"]);
    for run in &measured {
        for (index, who) in distinct(&run.rows, |row| &row.who).into_iter().enumerate() {
            let name = engine(who);
            header.push(if index == 0 { format!("{}: {name}", run.name) } else { name });
        }
        header.push("ratio".to_owned());
    }
    let mut rows = Vec::new();
    for what in distinct(&first.rows, |row| &row.what) {
        let mut cells = cells([what]);
        for run in &measured {
            let mut rates = Vec::new();
            for who in distinct(&run.rows, |row| &row.who) {
                rates.push(figure(run, what, who, "per_second")?);
            }
            cells.extend(rates.iter().map(|&rate| count(rate)));
            cells.push(format!("{:.2}", rates[rates.len() - 1] / rates[0]));
        }
        rows.push(cells);
    }
    Ok(render::table(&header, &rows) + &render::missing(results))
}

// An idle reader.

pub(super) fn idle_reader_steps(scale: &Scale) -> Vec<Step> {
    let (seconds, repeat) = if scale.quick { ("0.3", 1) } else { ("3", 3) };
    vec![Step {
        name: "idle reader",
        arguments: format!(
            "bench idle-reader --engine undo,redo,ccstm,eager,archapt-redo --seconds {seconds} --repeat {repeat} \
             --seed {}",
            scale.seed
        ),
        seconds: scale.of(95, 5),
        rows: idle_reader_rows,
    }]
}

/// The figures of each of both phases.
const PHASE: [&str; 3] = ["commits_per_second", "longest_commit_ns", "longest_read_ns"];

fn idle_reader_rows(answer: &Value) -> Option<Vec<Row>> {
    let mut rows = Vec::new();
    for engine in answer.get("engines")?.as_array()? {
        let who = format!("perdura {}", engine.get("engine")?.as_str()?);
        for phase in ["alone", "beside"] {
            let figures = PHASE.map(|name| Some((name, engine.get(phase)?.get(name)?)));
            let [rate, commit, read] = figures;
            rows.push(row(phase.to_owned(), &who, &[rate?, commit?, read?])?);
        }
        rows.push(row("share".to_owned(), &who, &[("throughput", engine.get("throughput")?)])?);
    }
    Some(rows)
}

pub(super) fn idle_reader(results: &TableResults) -> Outcome<String> {
    let run = only(results)?;
    let header = cells([
        "",
        "commits a second without an idle reader",
        "beside it, of that",
        "longest commit",
        "beside it",
        "longest new read",
        "beside it",
    ]);
    let mut rows = Vec::new();
    for who in distinct(&run.rows, |row| &row.who) {
        let of = |what: &str, name: &str| figure(run, what, who, name);
        rows.push(vec![
            engine(who),
            count(of("alone", "commits_per_second")?),
            format!("{:.2}", of("share", "throughput")?),
            show_ns(of("alone", "longest_commit_ns")?),
            show_ns(of("beside", "longest_commit_ns")?),
            show_ns(of("alone", "longest_read_ns")?),
            show_ns(of("beside", "longest_read_ns")?),
        ]);
    }
    Ok(render::table(&header, &rows))
}

/// An array of texts.
fn texts(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}
