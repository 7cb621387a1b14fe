//! Settings of a run's pool: how long its engine lets commits and lines wait, and its log. They are options of
//! `perdura-lab bench` and `perdura-lab sim`, and the table `tuning` of an experiment.

use crate::quantity::{self, NEVER, show_bytes, show_time};
use perdura::{Skip, Tuning};
use perdura_engine::area;
use perdura_memory::LINE;
use perdura_memory::elision::{Attempts, Delay};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// An absent option has the engine's default. Engines that let no commits wait use only the log's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Knobs {
    /// Engines archapt-*: time after which commits are made durable though no client waits for them, as 10ms or 1s; or
    /// never [default: 10ms]
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    #[serde(default, deserialize_with = "time")]
    #[serde(rename(serialize = "answer_within_ns"), serialize_with = "nanoseconds")]
    pub(crate) answer_within: Option<u64>,

    /// Engines archapt-*: bytes of log that a group of commits may fill, and four times as many while
    /// another transaction reads [default: 4K]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    #[serde(default, deserialize_with = "bytes", rename(serialize = "group_bytes"))]
    pub(crate) group: Option<u64>,

    /// Engines archapt-*: bytes of lines that may wait for their write-back [default: as many as
    /// the last-level cache has]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    #[serde(default, deserialize_with = "bytes", rename(serialize = "queue_bytes"))]
    pub(crate) queue: Option<u64>,

    /// Engine eager: at most this many consecutive transactions that are not waited for become durable together; 1:
    /// each by itself [default: 16]
    #[arg(long, value_name = "NUMBER", value_parser = quantity::count)]
    #[serde(default)]
    pub(crate) together: Option<u64>,

    /// Engines archapt-*-sum: when write-backs are skipped: never, always, or where-fewer, where the
    /// checksums take fewer lines [default: where-fewer]
    #[arg(long, value_name = "WHEN")]
    #[serde(default, deserialize_with = "named", serialize_with = "name")]
    pub(crate) skip: Option<Skip>,

    /// Whether commits that are waited for at the same time share a record and its fences: true (then those not
    /// waited for, too) or false [default: where that is faster]
    #[arg(long, value_name = "WHETHER")]
    #[serde(default)]
    pub(crate) share: Option<bool>,

    /// Engines htm-*: how many conflicts, interrupts and other losses a transaction may have and still be tried in
    /// hardware [default: 8/8/0]
    #[arg(long, value_name = "LOSSES")]
    #[serde(default, deserialize_with = "named", serialize_with = "name")]
    pub(crate) attempts: Option<Attempts>,

    /// Engines htm-*: cycles below which a transaction waits at random after its first conflict, twice as many after
    /// each further one, and the most; 0/0: it does not wait [default: 256/8192]
    #[arg(long, value_name = "CYCLES")]
    #[serde(default, deserialize_with = "named", serialize_with = "name")]
    pub(crate) conflict_delay: Option<Delay>,

    /// Bytes of the pool's log [default: an eighth of the pool, at most 64M]
    #[arg(long, value_name = "BYTES", value_parser = log_bytes)]
    #[serde(default, deserialize_with = "log", rename(serialize = "log_bytes"))]
    pub(crate) log: Option<u64>,

    /// Pools with checksums of all pages, so that damage by the medium is noticed
    #[arg(long)]
    #[serde(default)]
    pub(crate) checksums: bool,
}

fn time<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    quantity::deserialize(deserializer, quantity::time).map(Some)
}

fn bytes<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    quantity::deserialize(deserializer, quantity::bytes).map(Some)
}

fn named<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: FromStr<Err = String>,
{
    quantity::deserialize(deserializer, str::parse).map(Some)
}

fn name<S: Serializer, T: fmt::Display>(
    named: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    named.as_ref().map(T::to_string).serialize(serializer)
}

fn log<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    quantity::deserialize(deserializer, log_bytes).map(Some)
}

/// The engine would silently make a smaller one larger.
fn log_bytes(text: &str) -> Result<u64, String> {
    let bytes = quantity::bytes(text)?;
    if bytes < area::SMALLEST {
        return Err(format!("a log has {} or more", show_bytes(area::SMALLEST)));
    }
    Ok(bytes)
}

fn nanoseconds<S: Serializer>(time: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match *time {
        Some(NEVER) => serializer.serialize_str("never"),
        other => other.serialize(serializer),
    }
}

impl Knobs {
    /// The engine's settings.
    pub(crate) fn tuning(&self) -> Tuning {
        Tuning {
            queue_lines: self.queue.map(|bytes| bytes / LINE),
            group_bytes: self.group,
            answer_within_ns: self.answer_within,
            window: self.together,
            snapshot_after: None,
            bias_after: None,
            kept_segments: None,
            batches: None,
            wait_for_readers_ns: None,
            fallback_percent: None,
            attempts: self.attempts,
            conflict_delay: self.conflict_delay,
            skip: self.skip,
            share: self.share,
        }
    }

    /// Bytes that a pool needs in addition to those for its data, to have room for the log: at most half of a pool may
    /// be its log.
    pub(crate) fn room(&self) -> u64 {
        self.log.unwrap_or_default().saturating_mul(2)
    }

    /// The settings in words, if there are any.
    pub(crate) fn remark(&self) -> Option<String> {
        (*self != Knobs::default()).then(|| self.to_string())
    }
}

impl fmt::Display for Knobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Knobs { answer_within, group, queue, together, skip, share, .. } = *self;
        let Knobs { attempts, conflict_delay, log, checksums, .. } = *self;
        let parts = [
            answer_within.map(|ns| match ns {
                NEVER => "no bound of time for answers".to_owned(),
                ns => format!("answers within {}", show_time(ns)),
            }),
            group.map(|bytes| format!("groups of up to {}", show_bytes(bytes))),
            queue.map(|bytes| format!("a queue of {}", show_bytes(bytes))),
            together.map(|most| format!("up to {most} transactions in a record")),
            skip.map(|skip| match skip {
                Skip::Never => "no write-back skipped".to_owned(),
                Skip::WhereFewer => "write-backs skipped where that saves lines".to_owned(),
                Skip::Always => "write-backs skipped always".to_owned(),
            }),
            share.map(|share| match share {
                true => "a record for those that are waited for at the same time".to_owned(),
                false => "a record for each commit that is waited for".to_owned(),
            }),
            attempts.map(|most| format!("{most} losses of a transaction in hardware")),
            conflict_delay.map(|bounds| match bounds {
                Delay { first: 0, .. } => "no delay after a conflict".to_owned(),
                bounds => format!("a delay of {bounds} cycles after a conflict"),
            }),
            log.map(|bytes| format!("a log of {}", show_bytes(bytes))),
            checksums.then(|| "checksums of all pages".to_owned()),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_and_shown() {
        let text = "answer_within = '1 s'\ngroup = '1 MiB'\nqueue = '19.25 MB'\nlog = '512M'";
        let knobs: Knobs = toml::from_str(text).expect("knobs");
        assert_eq!(knobs.tuning().queue_lines, Some(19 * 16_384 + 4_096));
        assert_eq!(
            knobs.to_string(),
            "answers within 1 s, groups of up to 1 MiB, a queue of 19.2 MiB, a log of 512 MiB"
        );
        let json = serde_json::to_string(&knobs).expect("JSON");
        assert!(json.contains("\"answer_within_ns\":1000000000"), "{json}");
        let never: Knobs = toml::from_str("answer_within = 'never'").expect("knobs");
        assert!(serde_json::to_string(&never).expect("JSON").contains("\"never\""));
        assert!(never.remark().is_some() && Knobs::default().remark().is_none());
    }

    #[test]
    fn bad_ones_say_what_is_wrong() {
        for (text, hint) in [
            ("answer_within = '10'", "10ms"),
            ("log = '1K'", "or more"),
            ("group = 'big'", "not a size"),
            ("grop = '1'", "grop"),
        ] {
            let error = toml::from_str::<Knobs>(text).expect_err("an error").to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
