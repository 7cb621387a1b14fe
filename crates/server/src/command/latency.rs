//! LATENCY: the latency monitor, and how long commands took.

use super::{ClientCall, Command, Failure, Next, Outcome, Run, all, find, shown};
use crate::keyspace::now;
use crate::latency::{Analysis, Sample, Series};
use crate::server::Server;
use crate::stats::{LOG_BUCKETS, bucket_end};
use std::fmt::Write;

pub(super) const TABLE: &[Command] =
    &[Command::new("latency", -2, (0, 0, 0), Run::Client(latency), "What has taken long.")];

const HELP: [&str; 14] = [
    "DOCTOR",
    "    Return a human readable latency analysis report.",
    "GRAPH <event>",
    "    Return an ASCII latency graph for the <event> class.",
    "HISTORY <event>",
    "    Return time-latency samples for the <event> class.",
    "LATEST",
    "    Return the latest latency samples for all events.",
    "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes.",
    "    (default: reset all data for all event classes)",
    "HISTOGRAM [COMMAND ...]",
    "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
    "    If no commands are specified then all histograms are replied.",
];

/// Columns and rows of a graph.
const COLUMNS: usize = 80;
const ROWS: usize = 4;
/// The characters of a row's thirds.
const FILL: [u8; 3] = *b"_o#";

fn latency(call: &mut ClientCall<'_>) -> Outcome<Next> {
    let (args, server) = (call.args, call.server);
    match (args.at(1).to_ascii_lowercase().as_slice(), args.len()) {
        (b"latest", 2) => {
            let series = server.latency.series();
            let mut out = call.reply();
            out.array(series.len());
            for (kind, Series { samples, longest }) in series {
                let last = samples.back().copied().unwrap_or(Sample { time: 0, millis: 0 });
                out.array(4);
                out.bulk(kind.as_bytes());
                [last.time, last.millis, longest].into_iter().for_each(|number| out.size(number));
            }
        }
        (b"history", 3) => {
            let samples = server.latency.of(args.at(2)).unwrap_or_default().samples;
            let mut out = call.reply();
            out.array(samples.len());
            for Sample { time, millis } in samples {
                out.array(2);
                out.size(time);
                out.size(millis);
            }
        }
        (b"graph", 3) => {
            let Some(series) = server.latency.of(args.at(2)) else {
                let kind = shown(args.at(2), 128);
                return Err(Failure::say(format!("ERR No samples available for event '{kind}'")));
            };
            let kind = String::from_utf8_lossy(args.at(2));
            let graph = graph(&kind, &series, now() / 1000);
            call.reply().verbatim(&graph);
        }
        (b"doctor", 2) => {
            let report = report(server);
            call.reply().verbatim(&report);
        }
        (b"reset", 2) => {
            let count = server.latency.reset(None);
            call.reply().size(count as u64);
        }
        (b"reset", _) => {
            let counts = args.from(2).iter().map(|kind| server.latency.reset(Some(kind)));
            let count = counts.sum::<usize>();
            call.reply().size(count as u64);
        }
        (b"histogram", _) => histogram(call),
        (b"help", 2) => call.reply().help("LATENCY", &HELP),
        (b"latest" | b"history" | b"graph" | b"doctor" | b"help", _) => {
            return Err(Failure::subcommand_arity(args, "latency"));
        }
        _ => return Err(Failure::unknown_subcommand(args, "LATENCY")),
    }
    Ok(Next::Go)
}

/// How many calls of each command took at most how many microseconds.
fn histogram(call: &mut ClientCall<'_>) {
    let (args, server) = (call.args.from(2), call.server);
    let commands: Vec<&'static Command> = match args.len() {
        0 => all().map(|(_, command)| command).collect(),
        _ => args.iter().filter_map(find).collect(),
    };
    let mut out = call.reply();
    let (start, mut count) = (out.len(), 0);
    for command in commands {
        let mut calls = [0; LOG_BUCKETS];
        for stats in server.stats.iter() {
            stats.of(command).add_to(&mut calls);
        }
        let total: u64 = calls.iter().sum();
        if total == 0 {
            continue;
        }
        count += 1;
        out.bulk(command.name.as_bytes());
        out.map(2);
        out.bulk(b"calls");
        out.size(total);
        out.bulk(b"histogram_usec");
        out.map(calls.iter().filter(|calls| **calls > 0).count());
        let mut so_far = 0;
        for (bucket, calls) in calls.into_iter().enumerate().filter(|(_, calls)| *calls > 0) {
            so_far += calls;
            out.size(bucket_end(bucket));
            out.size(so_far);
        }
    }
    out.map_since(start, count);
}

/// How long ago something was.
fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A picture of a series, with the age of each sample from top to bottom under it.
fn graph(kind: &str, series: &Series, now: u64) -> String {
    let millis = || series.samples.iter().map(|one| one.millis);
    let (low, high) = (millis().min().unwrap_or(0), millis().max().unwrap_or(0));
    let mut text = format!(
        "{kind} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        series.longest,
        "-".repeat(COLUMNS)
    );
    let samples: Vec<Sample> = series.samples.iter().copied().collect();
    for (index, part) in samples.chunks(COLUMNS).enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let steps = FILL.len() * ROWS;
        let step = |one: &Sample| {
            let part = (one.millis - low) as f64 * steps as f64 / (high - low).max(1) as f64;
            (part as usize).min(steps - 1)
        };
        for row in (0..ROWS).rev() {
            let bottom = row * FILL.len();
            text.extend(part.iter().map(|one| match step(one).checked_sub(bottom) {
                None => ' ',
                Some(above) => FILL.get(above).map_or('|', |fill| char::from(*fill)),
            }));
            text.push('\n');
        }
        text.push_str(&" ".repeat(part.len()));
        text.push('\n');
        let labels: Vec<String> =
            part.iter().map(|one| ago(now.saturating_sub(one.time))).collect();
        for at in 0..labels.iter().map(String::len).max().unwrap_or(0) {
            text.extend(
                labels.iter().map(|label| label.as_bytes().get(at).map_or(' ', |c| char::from(*c))),
            );
            text.push('\n');
        }
    }
    text
}

/// The report of LATENCY DOCTOR: Redis's, as far as it has the same kinds.
fn report(server: &Server) -> String {
    let threshold = server.tuning.latency_threshold();
    let series = server.latency.series();
    if series.is_empty() {
        return match threshold {
            None => "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Redis instance. You may use \
                     \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it. If we weren't in a \
                     deep space mission I'd suggest to take a look at https://redis.io/topics/latency-monitor.\n",
            Some(_) => "Dave, no latency spike was observed during the lifetime of this Redis instance, not in the \
                        slightest bit. I honestly think you ought to sit down calmly, take a stress pill, and think things \
                        over.\n",
        }
        .to_owned();
    }
    let mut text = "Dave, I have observed latency spikes in this Redis instance. You don't mind talking about it, do you \
                    Dave?\n\n"
        .to_owned();
    let now = now() / 1000;
    for (number, (kind, series)) in (1..).zip(&series) {
        let Analysis { count, mean, deviation, period } = series.analysis(now);
        // Nothing that is written to a string fails.
        let _ = writeln!(
            text,
            "{number}. {kind}: {count} latency spikes (average {mean}ms, mean deviation {deviation}ms, period {:.2} sec). \
             Worst all time event {}ms.",
            period as f64 / count as f64,
            series.longest
        );
    }
    text.push_str("\nI have a few advices for you:\n\n");
    let has = |kind: &str| series.iter().any(|(own, _)| *own == kind);
    let micros = threshold.unwrap_or_default().as_micros();
    if has("command") {
        match server.tuning.slower_than() {
            None => {
                let _ = writeln!(
                    text,
                    "- There are latency issues with potentially slow commands you are using. Try to enable the Slow Log Redis \
                     feature using the command 'CONFIG SET slowlog-log-slower-than {micros}'. If the Slow log is disabled \
                     Redis is not able to log slow commands execution for you."
                );
            }
            Some(slower) if slower.as_micros() > micros => {
                let _ = writeln!(
                    text,
                    "- Your current Slow Log configuration only logs events that are slower than your configured latency \
                     monitor threshold. Please use 'CONFIG SET slowlog-log-slower-than {micros}'."
                );
            }
            Some(_) => {}
        }
        text.push_str(
            "- Check your Slow Log to understand what are the commands you are running which are too slow to execute. \
             Please check https://redis.io/commands/slowlog for more information.\n",
        );
    }
    if has("fast-command") {
        text.push_str(
            "- The system is slow to execute Redis code paths not containing system calls. This usually means the system \
             does not provide Redis CPU time to run for long periods. You should try to:\n  1) Lower the system load.\n  \
             2) Use a computer / VM just for Redis if you are running other software in the same system.\n  3) Check if you \
             have a \"noisy neighbour\" problem.\n  4) Check with 'redis-cli --intrinsic-latency 100' what is the intrinsic \
             latency in your system.\n",
        );
    }
    if has("aof-fsync-always") {
        text.push_str("- Every answer waits until it is durable: a faster disk, or one nearby, makes that shorter.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_drawn_as_redis_draws_it() {
        let samples = [(0, 10), (7190, 20), (7200, 30), (90_000, 130)];
        let samples = samples.into_iter().map(|(time, millis)| Sample { time, millis }).collect();
        let text = graph("command", &Series { samples, longest: 200 }, 90_005);
        let line = "-".repeat(80);
        let expected = format!(
            "command - high 130 ms, low 10 ms (all time high 200 ms)\n{line}\n   #\n   |\n   |\n_o#|\n    \n1225\nd33s\n hh \n"
        );
        assert_eq!(text, expected);
    }
}
