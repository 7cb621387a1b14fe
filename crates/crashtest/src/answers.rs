//! When the programs of a case wait for acknowledgements, and how the engine is tuned: this decides how many
//! transactions share a group, how long lines wait, and which events there are besides the operations.

use perdura::{Skip, Tuning};
use perdura_memory::elision::{Attempts, Delay};
use perdura_memory::random::SplitMix64;
use std::fmt;
use std::str::FromStr;

/// Which transactions are waited for, and the engine's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answers {
    /// This many transactions are waited for,
    pub waits: u64,
    /// out of this many, at random. A later one's acknowledgement implies the others.
    pub of: u64,
    /// After this many operations, a core runs the engine's background flush; 0: never.
    pub tends: u64,
    /// One in this many operations of a core is followed by a checkpoint, at random, while other cores go on; 0: none.
    pub checkpoints: u64,
    /// One in this many operations of a core is preceded by reading everything, at random; 0: none.
    pub reads: u64,
    /// The engine's tuning, if it has any.
    pub tuning: Tuning,
}

impl Default for Answers {
    /// Three of four are waited for, and nothing is set.
    fn default() -> Self {
        let tuning = Tuning::default();
        Answers { waits: 3, of: 4, tends: 0, checkpoints: 0, reads: 0, tuning }
    }
}

/// For most cases of an engine that makes groups: transactions are waited for now and then.
const WAITS: [(u64, u64); 8] = [(3, 4), (1, 2), (1, 8), (1, 8), (1, 32), (1, 32), (0, 1), (0, 1)];
const TENDS: [u64; 4] = [0, 0, 1, 4];
const LINES: [Option<u64>; 6] = [None, None, Some(1), Some(2), Some(4), Some(8)];
const BYTES: [Option<u64>; 6] = [None, None, Some(128), Some(256), Some(512), Some(1024)];
/// Nanoseconds: at once, about one operation, several, never.
const WITHIN: [Option<u64>; 5] = [None, Some(0), Some(2_000), Some(20_000), Some(u64::MAX)];

const CHECKPOINTS: [u64; 6] = [0, 0, 0, 8, 4, 2];
const READS: [u64; 4] = [0, 8, 4, 2];

/// In these small pools few lines leave together.
const SKIP: [Option<Skip>; 4] = [None, Some(Skip::Always), Some(Skip::Always), Some(Skip::Always)];

/// If set to share, transactions that are not waited for join a group too.
const SHARE: [Option<bool>; 4] = [None, Some(true), Some(true), Some(false)];

/// Lines that a transaction reads before it has a snapshot, under software transactional memory.
const SNAPSHOT: [Option<u64>; 4] = [None, None, Some(1), Some(8)];

/// Commits in a row after which a session has the lock's bias: by default so many that no short life reaches it.
const BIAS: [Option<u64>; 4] = [None, Some(0), Some(1), Some(3)];

/// The maximum number of sessions that keep a segment of the log between their transactions; with 0, all hand theirs
/// over. By default the limit is larger than the number of cores of any case, so that all keep theirs.
const KEPT: [Option<u64>; 4] = [None, None, Some(0), Some(1)];

/// Whether sessions take memory by the batch, which by default only those of large pools do.
const BATCHES: [Option<bool>; 3] = [None, None, Some(true)];

/// Nanoseconds that a writer waits for readers, under a lock: not at all, about one operation.
const WAIT: [Option<u64>; 4] = [None, Some(0), Some(0), Some(2_000)];

/// How many transactions in 100 take the fallback path at once, under hardware transactions.
const FALLBACK: [Option<u64>; 4] = [None, Some(20), Some(50), Some(80)];

/// How many losses of each cause a transaction may have in hardware.
const ATTEMPTS: [Option<Attempts>; 8] = [
    None,
    None,
    None,
    None,
    None,
    None,
    Some(Attempts { conflicts: 0, interrupts: 0, others: 0 }),
    Some(Attempts { conflicts: 2, interrupts: 1, others: 1 }),
];

/// How long a transaction waits after a conflict.
const DELAY: [Option<Delay>; 4] =
    [None, None, Some(Delay::NONE), Some(Delay { first: 1_000, most: 20_000 })];

/// The maximum number of transactions that persist together in a window.
const WINDOW: [Option<u64>; 6] = [None, None, Some(1), Some(2), Some(4), Some(64)];

impl Answers {
    /// Draws the values for an engine; `groups` says whether it makes groups.
    pub(crate) fn draw(seed: u64, groups: bool) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x616e_7377_6572_7321);
        let mut below = |len: usize| random.below(len as u64) as usize;
        let mut snapshots = SplitMix64::new(seed ^ 0x736e_6170_7368_6f74);
        let snapshot_after = SNAPSHOT[snapshots.below(SNAPSHOT.len() as u64) as usize];
        let wait_for_readers_ns = WAIT[snapshots.below(WAIT.len() as u64) as usize];
        let mut limits = SplitMix64::new(seed ^ 0x6c69_6d69_7473);
        let bias_after = BIAS[limits.below(BIAS.len() as u64) as usize];
        let batches = BATCHES[limits.below(BATCHES.len() as u64) as usize];
        let kept_segments = KEPT[limits.below(KEPT.len() as u64) as usize];
        let mut paths = SplitMix64::new(seed ^ 0x7061_7468_7321);
        let fallback_percent = FALLBACK[paths.below(FALLBACK.len() as u64) as usize];
        let attempts = ATTEMPTS[paths.below(ATTEMPTS.len() as u64) as usize];
        let conflict_delay = DELAY[paths.below(DELAY.len() as u64) as usize];
        let usual = Tuning {
            snapshot_after,
            wait_for_readers_ns,
            bias_after,
            kept_segments,
            batches,
            fallback_percent,
            attempts,
            conflict_delay,
            ..Tuning::default()
        };
        let checkpoints = CHECKPOINTS[below(CHECKPOINTS.len())];
        let reads = READS[below(READS.len())];
        if !groups {
            let share = SHARE[below(SHARE.len())];
            let tuning = Tuning { share, ..usual };
            return Answers { checkpoints, reads, tuning, ..Answers::default() };
        }
        let (waits, of) = WAITS[below(WAITS.len())];
        let tends = TENDS[below(TENDS.len())];
        let tuning = Tuning {
            queue_lines: LINES[below(LINES.len())],
            group_bytes: BYTES[below(BYTES.len())],
            answer_within_ns: WITHIN[below(WITHIN.len())],
            skip: SKIP[below(SKIP.len())],
            share: SHARE[below(SHARE.len())],
            window: WINDOW[below(WINDOW.len())],
            ..usual
        };
        Answers { waits, of, tends, checkpoints, reads, tuning }
    }

    /// Whether a transaction is waited for.
    pub(crate) fn wait(&self, random: &mut SplitMix64) -> bool {
        random.below(self.of) >= self.of - self.waits
    }

    /// Whether an operation of a core is preceded by reading everything, and whether it is followed by a checkpoint.
    pub(crate) fn besides(&self, random: &mut SplitMix64) -> (bool, bool) {
        let mut one_of = |count: u64| count > 0 && random.below(count) == 0;
        (one_of(self.reads), one_of(self.checkpoints))
    }

    /// Whether the engine's background flush runs after operation number `index` of a core.
    pub(crate) fn flushes_after(&self, index: usize) -> bool {
        self.tends > 0 && (index as u64 + 1).is_multiple_of(self.tends)
    }
}

impl fmt::Display for Answers {
    /// The form on a command line: `1/8,tends=4,lines=2,bytes=256,within=2000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Answers { waits, of, tends, checkpoints, reads, tuning } = self;
        write!(f, "{waits}/{of}")?;
        let [tends, checkpoints, reads] =
            [tends, checkpoints, reads].map(|count| (*count > 0).then_some(*count));
        let Tuning { queue_lines, group_bytes, answer_within_ns, window, .. } = *tuning;
        let Tuning {
            skip,
            share,
            snapshot_after,
            wait_for_readers_ns,
            bias_after,
            kept_segments,
            batches,
            fallback_percent,
            attempts,
            conflict_delay,
            ..
        } = *tuning;
        let all = [
            tends,
            checkpoints,
            reads,
            queue_lines,
            group_bytes,
            answer_within_ns,
            window,
            snapshot_after,
            bias_after,
            wait_for_readers_ns,
            kept_segments,
            fallback_percent,
        ];
        for (name, value) in NAMES.into_iter().zip(all) {
            if let Some(value) = value {
                write!(f, ",{name}={value}")?;
            }
        }
        if let Some(skip) = skip {
            write!(f, ",skip={skip}")?;
        }
        if let Some(batches) = batches {
            write!(f, ",batches={batches}")?;
        }
        if let Some(attempts) = attempts {
            write!(f, ",attempts={attempts}")?;
        }
        if let Some(delay) = conflict_delay {
            write!(f, ",delay={delay}")?;
        }
        match share {
            Some(share) => write!(f, ",share={share}"),
            None => Ok(()),
        }
    }
}

const NAMES: [&str; 12] = [
    "tends",
    "checkpoints",
    "reads",
    "lines",
    "bytes",
    "within",
    "window",
    "snapshot",
    "bias",
    "wait",
    "kept",
    "fallback",
];

impl FromStr for Answers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| {
            format!(
                "'{text}' is not how many transactions are waited for, as '3/4', '1/8' or '0/1', \
                 with more behind it, as '1/8,tends=4,lines=2,bytes=256,within=2000'"
            )
        })
    }
}

fn parse(text: &str) -> Option<Answers> {
    let mut parts = text.split(',');
    let (waits, of) = parts.next()?.split_once('/')?;
    let (waits, of) = (waits.parse().ok()?, of.parse().ok()?);
    let mut answers = Answers { waits, of, ..Answers::default() };
    for part in parts {
        let (name, value) = part.split_once('=')?;
        let tuning = &mut answers.tuning;
        if name == "skip" {
            tuning.skip = Some(value.parse().ok()?);
            continue;
        }
        if name == "batches" {
            tuning.batches = Some(value.parse().ok()?);
            continue;
        }
        if name == "attempts" {
            tuning.attempts = Some(value.parse().ok()?);
            continue;
        }
        if name == "delay" {
            tuning.conflict_delay = Some(value.parse().ok()?);
            continue;
        }
        if name == "share" {
            tuning.share = Some(value.parse().ok()?);
            continue;
        }
        let value = value.parse().ok()?;
        match name {
            "tends" => answers.tends = value,
            "checkpoints" => answers.checkpoints = value,
            "reads" => answers.reads = value,
            "lines" => tuning.queue_lines = Some(value),
            "bytes" => tuning.group_bytes = Some(value),
            "within" => tuning.answer_within_ns = Some(value),
            "window" => tuning.window = Some(value),
            "snapshot" => tuning.snapshot_after = Some(value),
            "bias" => tuning.bias_after = Some(value),
            "wait" => tuning.wait_for_readers_ns = Some(value),
            "kept" => tuning.kept_segments = Some(value),
            "fallback" => tuning.fallback_percent = Some(value),
            _ => return None,
        }
    }
    (of > 0 && waits <= of).then_some(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_answers_are_read() {
        for seed in 0..1000 {
            for groups in [false, true] {
                let answers = Answers::draw(seed, groups);
                assert_eq!(answers.to_string().parse(), Ok(answers));
            }
        }
        assert_eq!("3/4".parse(), Ok(Answers::default()));
        for wrong in ["", "3", "5/4", "0/0", "1/2,", "1/2,lines", "1/2,x=1", "1/2,lines=x"] {
            assert!(wrong.parse::<Answers>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_usual_ones_wait_as_ever() {
        let (mut mine, mut before) = (SplitMix64::new(5), SplitMix64::new(5));
        for _ in 0..100 {
            assert_eq!(Answers::default().wait(&mut mine), before.below(4) != 0);
        }
        assert!(
            (0..100).all(|_| !Answers { waits: 0, of: 1, ..Answers::default() }.wait(&mut mine))
        );
    }
}
