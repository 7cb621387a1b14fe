//! The results of a series, as tables and as JSON.

use super::knobs::Knobs;
use super::options::Common;
use super::spread::Spread;
use super::window::Window;
use crate::csv;
use crate::failure::Outcome;
use crate::machine::Machine;
use crate::output::{print, print_json, table};
use crate::quantity::{plural, show_count, show_ns};
use crate::workload::show_sizes;
use perdura::{Counters, EngineKind};
use perdura_workloads::Latencies;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// All measurements, and their conditions.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) title: String,
    pub(crate) parameters: Value,
    pub(crate) machine: Machine,
    pub(crate) memory: String,
    pub(crate) site: String,
    pub(crate) seed: u64,
    pub(crate) repeat: u32,
    pub(crate) threads: u32,
    pub(crate) sample_every: u32,
    /// Operations per second of an open loop; `None` for a closed one.
    pub(crate) arrivals_per_second: Option<u64>,
    /// Whether each thread is bound to a processor of its own.
    pub(crate) pinned: bool,
    /// Transactions that a thread leaves unanswered at most.
    pub(crate) window: Window,
    /// Settings of the engines and of the log.
    pub(crate) tuning: Knobs,
    pub(crate) warm_up: u64,
    pub(crate) line_and_fence_ns: Spread,
    /// Whether Ctrl-C ended it before all repetitions were done.
    pub(crate) ended_early: bool,
    pub(crate) engines: Vec<EngineReport>,
}

/// One engine's figures.
#[derive(Debug, Serialize)]
pub(crate) struct EngineReport {
    pub(crate) engine: &'static str,
    /// Latency of an operation in its thread: with several threads, longer than `wall_ns_per_operation`.
    pub(crate) thread_ns_per_operation: Spread,
    /// The time of the run divided by the operations of all threads.
    pub(crate) wall_ns_per_operation: Spread,
    /// All threads together.
    pub(crate) per_second: Spread,
    /// As a multiple of one flushed line and a fence in the same repetition.
    pub(crate) multiple: Spread,
    pub(crate) runs: Vec<RunRecord>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunRecord {
    pub(crate) seed: u64,
    pub(crate) load_seconds: f64,
    pub(crate) thread_ns_per_operation: f64,
    pub(crate) wall_ns_per_operation: f64,
    pub(crate) per_second: f64,
    pub(crate) line_and_fence_ns: f64,
    pub(crate) multiple: f64,
    pub(crate) operations: u64,
    pub(crate) latencies: Vec<Latencies>,
    pub(crate) counters: Counters,
    /// How large the workload's data was when it was loaded.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) sizes: BTreeMap<&'static str, u64>,
    /// The workload's own counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) counts: Vec<Count>,
}

/// The workload's counts, all threads together.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Count {
    pub(crate) name: &'static str,
    pub(crate) count: u64,
    pub(crate) per_second: f64,
}

impl EngineReport {
    pub(crate) fn new(engine: EngineKind, runs: Vec<RunRecord>) -> Self {
        EngineReport {
            engine: engine.name(),
            thread_ns_per_operation: Spread::of(runs.iter().map(|run| run.thread_ns_per_operation)),
            wall_ns_per_operation: Spread::of(runs.iter().map(|run| run.wall_ns_per_operation)),
            per_second: Spread::of(runs.iter().map(|run| run.per_second)),
            multiple: Spread::of(runs.iter().map(|run| run.multiple)),
            runs,
        }
    }

    fn is_crash_consistent(&self) -> bool {
        self.engine.parse().is_ok_and(|kind: EngineKind| kind.is_crash_consistent())
    }

    /// The run nearest to the median: whose latencies and counters are shown.
    fn typical(&self) -> &RunRecord {
        let distance = |run: &RunRecord| {
            (run.thread_ns_per_operation - self.thread_ns_per_operation.median).abs()
        };
        let nearest = self.runs.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.expect("an engine has run at least once")
    }
}

impl Report {
    /// Prints it in the form that was asked for.
    pub(crate) fn show(&self, common: &Common) -> Outcome {
        if common.json {
            print_json(self)
        } else if common.csv {
            csv::print(self, &["engines", "runs"])
        } else {
            print(self.text())
        }
    }

    fn text(&self) -> String {
        let line = self.line_and_fence_ns.show(show_ns);
        let mut parts = vec![
            self.heading(),
            format!("one line written back and a fence, in this run: {line}"),
            self.times().to_string(),
        ];
        if self.engines.iter().any(|engine| !engine.typical().latencies.is_empty()) {
            let which = match self.arrivals_per_second {
                Some(rate) => format!("from when each was due, {} a second", show_count(rate)),
                None if self.window != Window::CLOSED_LOOP => {
                    format!("up to the answer, one operation in {} timed", self.sample_every)
                }
                None => format!("one operation in {} timed", self.sample_every),
            };
            parts.push(format!("latency of the run nearest to the median, {which}:"));
            parts.push(self.latencies().to_string());
        }
        let sizes = self.engines.iter().map(|engine| &engine.typical().sizes);
        if let Some(sizes) = sizes.into_iter().find(|sizes| !sizes.is_empty()) {
            parts.push(show_sizes(sizes.iter().map(|(name, size)| (*name, *size))));
        }
        if self.engines.iter().any(|engine| !engine.typical().counts.is_empty()) {
            parts.push("transactions in that run, all threads together:".to_owned());
            parts.push(self.counts().to_string());
        }
        parts.push("per operation in that run:".to_owned());
        parts.push(self.counters().to_string());
        parts.push(self.verdict());
        parts.join("\n\n")
    }

    /// The summary of all measurements.
    fn verdict(&self) -> String {
        let mut verdict = "verdict: every run's data was checked, and is right".to_owned();
        let time = |engine: &&EngineReport| engine.thread_ns_per_operation.median;
        let safe = self.engines.iter().filter(|engine| engine.is_crash_consistent());
        if let Some(fastest) = safe.min_by(|a, b| time(a).total_cmp(&time(b))) {
            let (engine, time) = (fastest.engine, show_ns(time(&fastest)));
            verdict += &format!("; the fastest crash-consistent engine is {engine}, with {time}");
        }
        if self.ended_early {
            verdict += "; ended early";
        }
        verdict
    }

    fn heading(&self) -> String {
        let Report { title, machine, memory, site, seed, repeat, threads, warm_up, .. } = self;
        let mut threads = plural(u64::from(*threads), "thread");
        if self.pinned {
            threads += ", each on its processor";
        }
        if let Some(rate) = self.arrivals_per_second {
            threads += &format!("; open loop: {} operations begun a second", show_count(rate));
        }
        for remark in [self.window.remark(), self.tuning.remark()].into_iter().flatten() {
            threads += &format!(", {remark}");
        }
        let repeat = plural(u64::from(*repeat), "repetition");
        let warm_up = show_count(*warm_up);
        format!(
            "{title}; {threads}; {repeat}, interleaved, after {warm_up} operations each; seed {seed}\n\
             {machine}\n{memory}\n{site}"
        )
    }

    fn times(&self) -> comfy_table::Table {
        let header = ["engine", "time per operation", "operations/s", "x line and fence"];
        table(
            header,
            self.engines.iter().map(|engine| {
                [
                    engine.engine.to_string(),
                    engine.thread_ns_per_operation.show(show_ns),
                    show_count(engine.per_second.median as u64),
                    format!("{:.2}", engine.multiple.median),
                ]
            }),
        )
    }

    fn latencies(&self) -> comfy_table::Table {
        let header = ["engine", "operation", "timed", "p50", "p99", "p99.9", "max"];
        let rows = self.engines.iter().flat_map(|engine| {
            engine.typical().latencies.iter().map(|kind| {
                [
                    engine.engine.to_string(),
                    kind.kind.to_owned(),
                    show_count(kind.samples),
                    show_ns(kind.p50_ns as f64),
                    show_ns(kind.p99_ns as f64),
                    show_ns(kind.p999_ns as f64),
                    show_ns(kind.max_ns as f64),
                ]
            })
        });
        table(header, rows)
    }

    fn counts(&self) -> comfy_table::Table {
        let rows = self.engines.iter().flat_map(|engine| {
            engine.typical().counts.iter().map(|counted| {
                [
                    engine.engine.to_string(),
                    counted.name.to_owned(),
                    show_count(counted.count),
                    show_count(counted.per_second as u64),
                ]
            })
        });
        table(["engine", "kind", "count", "a second"], rows)
    }

    fn counters(&self) -> comfy_table::Table {
        let header = [
            "engine",
            "log lines",
            "data lines",
            "other lines",
            "lines saved",
            "fences",
            "log bytes",
            "streamed bytes",
            "dirty bytes",
            "aborts",
        ];
        table(header, self.engines.iter().map(counter_row))
    }
}

fn counter_row(engine: &EngineReport) -> [String; 10] {
    let run = engine.typical();
    let counters = &run.counters;
    let each = |count: u64| format!("{:.2}", count as f64 / run.operations.max(1) as f64);
    [
        engine.engine.to_string(),
        each(counters.write_backs_log),
        each(counters.write_backs_data),
        each(counters.write_backs_metadata + counters.write_backs_checksum),
        each(counters.write_backs_saved),
        each(counters.fences),
        each(counters.log_bytes),
        each(counters.streamed_bytes),
        each(counters.dirty_bytes),
        each(counters.aborts_user + counters.aborts_capacity + counters.aborts_conflict),
    ]
}
