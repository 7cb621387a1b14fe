//! The quantities that an experiment measures, by name: they identify the paper's values and ours.

use super::kind::Kind;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A figure's meaning. Changes are relative to the experiment's base engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Quantity {
    /// Operations per second, all threads together.
    PerSecond,
    /// Change of those.
    ThroughputChange,
    /// Operations per second, relative to the baseline server's.
    BaselineChange,
    /// The 99th percentile of the clients' response time.
    AnswerP99,
    /// The 99th percentile of latency.
    P99,
    /// Change of that.
    P99Change,
    /// Time that an engine adds to an operation of the base engine.
    Added,
    /// The share of it that disappears when nothing is written back or fenced.
    PersistenceShare,
    /// Write-backs asked for, for each transaction that writes: of log lines,
    LogFlushes,
    /// of data,
    DataFlushes,
    /// of checksums,
    ChecksumFlushes,
    /// of the engine's own bookkeeping,
    OtherFlushes,
    /// all of them.
    Flushes,
    /// Change of all of them.
    FlushChange,
    /// The same without log lines.
    FlushChangeWithoutLog,
    /// Lines that reached memory for each transaction that writes, by whatever cause: of a simulated machine.
    MemoryWrites,
    /// Change of those.
    MemoryWriteChange,
    /// Dirty bytes in a data line written back, of its 64.
    Dirtiness,
    /// Change of that.
    DirtinessChange,
    /// The share of data lines written back with this many eighths dirty.
    Eighths(u8),
    /// The share of objects with no operation,
    Unused,
    /// with one,
    UsedOnce,
    /// with two,
    UsedTwice,
    /// with more;
    UsedMore,
    /// with one or two, of all objects,
    OnceOrTwice,
    /// with one or two, of the objects that are used at all,
    OnceOrTwiceOfUsed,
    /// and with two or more, of all objects.
    TwiceOrMore,
    /// Time for an object.
    ObjectTime(Step),
    /// That, relative to the time for writing it back.
    ObjectChange(Step),
    /// Lines written back for an object.
    ObjectLines(Step),
    /// Over all power cuts: lines that had been left to the caches,
    LeftToCaches,
    /// lines that differ from their contents in the caches,
    Inconsistent,
    /// those of them that checksums detected,
    Detected,
    /// and those that checksums could not restore;
    Uncorrected,
    /// cuts after which the pool was refused.
    RefusedCuts,
    /// Throughput as a share of the base's.
    Share,
    /// Change of throughput against the engine that `bases` names.
    Gain,
    /// Throughput by that of another engine with as many threads, for the paper's values alone,
    SpeedUp,
    /// and the reverse.
    Slowdown,
    /// Bytes written to the home device per byte stored by the program.
    Traffic,
    /// That, relative to the engine that `bases` names.
    TrafficRatio,
    /// Lines written to the home device for each transaction.
    LinesWritten,
    /// Those, relative to the engine that `bases` names.
    LinesRatio,
    /// Writes of the most frequently written line, for a thousand transactions.
    MostWorn,
    /// Hours at the measured rate until that line has been written a hundred million times.
    Lifetime,
    /// Time for an operation, all threads together.
    Time,
    /// The share of the cores' time in which they wait in fences, of a simulated machine.
    Fences,
    /// The share of the time in which all cores wait for the ends of a mechanism's epochs,
    InCheckpoints,
    /// how many epochs end,
    Checkpoints,
    /// and that relative to the base's.
    CheckpointsRatio,
    /// Lines written to the cells of the home device for each transaction,
    DeviceWrites,
    /// and those relative to the base's.
    WritesRatio,
    /// Of a DRAM cache: the share of its accesses that do not find their block,
    DramMisses,
    /// lines that the last cache reads for each one that it writes,
    ReadsByWrites,
    /// and the share of clean lines in the blocks that go home with dirty ones.
    CleanLines,
    /// Of a mechanism with a table in DRAM: the share of the entries looked up that its controller had copies of.
    EntryHits,
    /// Bytes of data when the machine is switched on.
    Footprint,
    /// The share of the transactions begun in hardware that it has committed,
    HardwareSuccess,
    /// and the share of those lost by their capacity, of all that were lost.
    CapacityLosses,
    /// Of a mechanism for transactions, for each transaction: lines written in place (with windows of one transaction:
    /// the lines that it makes dirty),
    InPlace,
    /// its blocks that left the caches before it was logged,
    EvictedBlocks,
    /// and versions that left the caches.
    DisplacedVersions,
}

/// The operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// All of it is written back.
    Flush,
    /// Checksums are created, object by object as they come,
    Create,
    /// or of all objects of a page at once.
    Packed,
    /// Checksums are updated.
    Update,
}

use Quantity::*;
use Step::*;

/// All of them, with their names, units and the kind of experiment that finds them.
const ALL: [(Quantity, &str, &str, Kind); 77] = [
    (PerSecond, "per-second", "/s", Kind::Throughput),
    (ThroughputChange, "throughput-change", "%", Kind::Throughput),
    (BaselineChange, "rival-change", "%", Kind::Throughput),
    (AnswerP99, "answer-p99", "ns", Kind::Throughput),
    (P99, "p99", "ns", Kind::Latency),
    (P99Change, "p99-change", "%", Kind::Latency),
    (Added, "added", "%", Kind::Breakdown),
    (PersistenceShare, "persistence-share", "%", Kind::Breakdown),
    (LogFlushes, "log-flushes", "/tx", Kind::Flushes),
    (DataFlushes, "data-flushes", "/tx", Kind::Flushes),
    (ChecksumFlushes, "checksum-flushes", "/tx", Kind::Flushes),
    (OtherFlushes, "other-flushes", "/tx", Kind::Flushes),
    (Flushes, "flushes", "/tx", Kind::Flushes),
    (FlushChange, "flush-change", "%", Kind::Flushes),
    (FlushChangeWithoutLog, "flush-change-without-log", "%", Kind::Flushes),
    (MemoryWrites, "memory-writes", "/tx", Kind::Flushes),
    (MemoryWriteChange, "memory-write-change", "%", Kind::Flushes),
    (Dirtiness, "dirtiness", "%", Kind::Dirtiness),
    (DirtinessChange, "dirtiness-change", "%", Kind::Dirtiness),
    (Eighths(1), "1/8", "%", Kind::Dirtiness),
    (Eighths(2), "2/8", "%", Kind::Dirtiness),
    (Eighths(3), "3/8", "%", Kind::Dirtiness),
    (Eighths(4), "4/8", "%", Kind::Dirtiness),
    (Eighths(5), "5/8", "%", Kind::Dirtiness),
    (Eighths(6), "6/8", "%", Kind::Dirtiness),
    (Eighths(7), "7/8", "%", Kind::Dirtiness),
    (Eighths(8), "8/8", "%", Kind::Dirtiness),
    (Unused, "unused", "%", Kind::Reuse),
    (UsedOnce, "used-once", "%", Kind::Reuse),
    (UsedTwice, "used-twice", "%", Kind::Reuse),
    (UsedMore, "used-more", "%", Kind::Reuse),
    (OnceOrTwice, "once-or-twice", "%", Kind::Reuse),
    (OnceOrTwiceOfUsed, "once-or-twice-of-used", "%", Kind::Reuse),
    (TwiceOrMore, "twice-or-more", "%", Kind::Reuse),
    (ObjectTime(Flush), "flush-time", "ns", Kind::Checksums),
    (ObjectTime(Create), "create-time", "ns", Kind::Checksums),
    (ObjectTime(Packed), "packed-time", "ns", Kind::Checksums),
    (ObjectTime(Update), "update-time", "ns", Kind::Checksums),
    (ObjectChange(Create), "create-change", "%", Kind::Checksums),
    (ObjectChange(Packed), "packed-change", "%", Kind::Checksums),
    (ObjectChange(Update), "update-change", "%", Kind::Checksums),
    (ObjectLines(Flush), "flush-lines", "/object", Kind::Checksums),
    (ObjectLines(Create), "create-lines", "/object", Kind::Checksums),
    (ObjectLines(Packed), "packed-lines", "/object", Kind::Checksums),
    (ObjectLines(Update), "update-lines", "/object", Kind::Checksums),
    (LeftToCaches, "left-to-caches", "lines", Kind::Crash),
    (Inconsistent, "inconsistent", "lines", Kind::Crash),
    (Detected, "detected", "lines", Kind::Crash),
    (Uncorrected, "uncorrected", "lines", Kind::Crash),
    (RefusedCuts, "refused-cuts", "cuts", Kind::Crash),
    (Share, "share", "of the base's throughput", Kind::Share),
    (Gain, "gain", "%", Kind::Share),
    (SpeedUp, "speed-up", "times", Kind::Share),
    (Slowdown, "slowdown", "times", Kind::Share),
    (Traffic, "traffic", "bytes written by bytes stored", Kind::Traffic),
    (TrafficRatio, "traffic-ratio", "of the other's", Kind::Traffic),
    (LinesWritten, "lines-written", "/tx", Kind::Traffic),
    (LinesRatio, "lines-ratio", "of the other's", Kind::Traffic),
    (MostWorn, "most-worn", "/1000 tx", Kind::Traffic),
    (Lifetime, "lifetime", "hours", Kind::Traffic),
    (Time, "time", "ns/op", Kind::Share),
    (Fences, "in-fences", "%", Kind::Share),
    (InCheckpoints, "in-checkpoints", "%", Kind::Share),
    (Checkpoints, "checkpoints", "checkpoints", Kind::Share),
    (CheckpointsRatio, "checkpoints-ratio", "of the base's", Kind::Share),
    (DeviceWrites, "device-writes", "/tx", Kind::Share),
    (WritesRatio, "writes-ratio", "of the base's", Kind::Share),
    (DramMisses, "dram-misses", "%", Kind::Share),
    (ReadsByWrites, "reads-by-writes", "times", Kind::Share),
    (CleanLines, "clean-lines", "%", Kind::Share),
    (EntryHits, "entry-hits", "%", Kind::Share),
    (Footprint, "footprint", "MB", Kind::Share),
    (HardwareSuccess, "hardware-success", "%", Kind::Share),
    (CapacityLosses, "capacity-losses", "% of losses", Kind::Share),
    (InPlace, "in-place", "/tx", Kind::Share),
    (EvictedBlocks, "evicted-blocks", "/tx", Kind::Share),
    (DisplacedVersions, "displaced-versions", "/tx", Kind::Share),
];

impl Quantity {
    fn row(self) -> &'static (Quantity, &'static str, &'static str, Kind) {
        ALL.iter().find(|row| row.0 == self).expect("every quantity has a row")
    }

    /// Its unit.
    pub(crate) fn unit(self) -> &'static str {
        self.row().2
    }

    /// The kind of experiment that finds it.
    pub(crate) fn kind(self) -> Kind {
        self.row().3
    }

    /// The quantities of this kind of experiment, in the order of its table.
    pub(crate) fn of(kind: Kind) -> impl Iterator<Item = Quantity> {
        ALL.iter().filter(move |row| row.3 == kind).map(|row| row.0)
    }

    /// Whether it is a comparison, so that its sign is shown.
    fn is_change(self) -> bool {
        matches!(
            self,
            ThroughputChange
                | BaselineChange
                | P99Change
                | Added
                | FlushChange
                | FlushChangeWithoutLog
                | MemoryWriteChange
                | DirtinessChange
                | Gain
                | ObjectChange(_)
        )
    }

    /// Whether it is a count.
    fn is_count(self) -> bool {
        self.kind() == Kind::Crash
    }

    /// The quantity that runs have of it.
    pub(crate) fn measured(self) -> Quantity {
        match self {
            SpeedUp | Slowdown => Share,
            own => own,
        }
    }

    /// Its value, by that of the quantity that runs have of it, beside the base.
    pub(crate) fn of_measured(self, value: f64) -> f64 {
        if self == Slowdown { 1.0 / value } else { value }
    }

    /// Whether means over workloads are shown, too.
    pub(crate) fn has_means(self) -> bool {
        self.kind().has_means()
    }

    /// Whether it is a ratio.
    fn is_ratio(self) -> bool {
        matches!(self, Share | Traffic | TrafficRatio | LinesRatio | WritesRatio | CheckpointsRatio)
    }

    /// Shows a value of it.
    pub(crate) fn show(self, value: f64) -> String {
        let nought = if value.abs() < 0.05 { 0.0 } else { value };
        match self {
            PerSecond => crate::quantity::show_count(value as u64),
            _ if self.is_count() => crate::quantity::show_count(value.round() as u64),
            P99 | AnswerP99 | ObjectTime(_) => crate::quantity::show_ns(value),
            _ if self.is_change() => format!("{nought:+.1} %"),
            _ if self.unit() == "%" => format!("{nought:.1} %"),
            _ if self.is_ratio() => format!("{value:.3}"),
            _ => format!("{value:.2}"),
        }
    }

    /// Shows a difference of two values of it.
    pub(crate) fn show_difference(self, difference: f64) -> String {
        match self.unit() {
            "%" => format!("{difference:+.1} points"),
            "ns" => format!("{difference:+.0} ns"),
            _ if self.is_count() => format!("{difference:+.0}"),
            _ if self.is_ratio() => format!("{difference:+.3}"),
            _ => format!("{difference:+.2}"),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> Self {
        quantity.to_string()
    }
}

impl TryFrom<String> for Quantity {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let found = ALL.iter().find(|row| row.1 == name);
        found.map(|row| row.0).ok_or_else(|| {
            let known = ALL.iter().map(|row| row.1).collect::<Vec<_>>().join(", ");
            format!("unknown quantity '{name}': it is one of {known}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for (quantity, name, ..) in ALL {
            assert_eq!(Quantity::try_from(name.to_owned()), Ok(quantity));
            assert_eq!(quantity.to_string(), name);
        }
        assert!(Quantity::try_from("speed".to_owned()).is_err_and(|error| error.contains("p99")));
    }

    #[test]
    fn values_read_well() {
        assert_eq!(ThroughputChange.show(22.04), "+22.0 %");
        assert_eq!(ThroughputChange.show(-0.01), "+0.0 %");
        assert_eq!(Dirtiness.show(55.0), "55.0 %");
        assert_eq!(P99Change.show_difference(-3.0), "-3.0 points");
        assert_eq!(Inconsistent.show(1_435.0), "1,435");
        assert_eq!(Inconsistent.show_difference(-1.5), "-2");
        assert_eq!(Share.show(0.3314), "0.331");
        assert_eq!(Traffic.show_difference(-0.0119), "-0.012");
    }
}
