//! A log area of any bytes, with corrected checksums: inspected and recovered by every engine.

use crate::sample::{BYTES, POOLS};
use crate::{Target, repair};
use perdura::superblock::Superblock;
use perdura::{Engine, EngineKind, Memory, OnEngine};
use perdura_engine::area::Geometry;
use perdura_engine::record;
use perdura_memory::{PAGE, Ram};
use std::ops::Range;

pub(crate) const LOG: Target = Target { name: "log", run: recover, seeds, words: &[] };

/// How many bytes of the header page the input sets, and how many of the first segment.
const HEADER: usize = 256;

/// The first bytes choose the log; the rest is the beginning of its header page, then of its first segment.
fn recover(bytes: &[u8]) {
    let Some(([of, how], bytes)) = bytes.split_first_chunk::<2>() else { return };
    let engine = EngineKind::ALL[usize::from(*of) % EngineKind::ALL.len()];
    let memory = Ram::new(BYTES);
    memory.copy_in(0, &POOLS[usize::from(*of) % POOLS.len()]);
    let area = Superblock::read(&memory).expect("the sample is a pool").log;
    let (header, segment) = bytes.split_at(bytes.len().min(HEADER));
    memory.copy_in(area.start, header);
    let room = (area.end - area.start - PAGE) as usize;
    memory.copy_in(area.start + PAGE, &segment[..segment.len().min(room)]);
    if how & 1 == 0 {
        repair::log(&memory, area.clone());
    }
    engine.run(Recover { memory: &memory, area });
}

struct Recover<'a> {
    memory: &'a Ram,
    area: Range<u64>,
}

impl OnEngine<Ram> for Recover<'_> {
    type Output = ();

    fn run<E: Engine<Ram>>(self) {
        recover_with::<E>(self.memory, self.area);
    }
}

fn recover_with<E: Engine<Ram>>(memory: &Ram, area: Range<u64>) {
    let inspected = E::inspect(memory, area.clone());
    if let Ok(geometry) = Geometry::read(memory, area.clone(), E::NAME)
        && let Ok(checkpoint) = geometry.checkpoint(memory)
    {
        let segment = geometry.segment(0);
        let mut at = segment.start;
        while let Some((found, next)) = record::read(memory, checkpoint.salt, at, segment.end) {
            assert!(next > at && next <= segment.end, "a record from {at} to {next}");
            let _ = found.for_each_word(|_, _| Ok(()));
            at = next;
        }
    }
    let recovered = E::recover(memory, area.clone());
    if E::CRASH_CONSISTENT {
        assert_eq!(inspected.is_ok(), recovered.is_ok(), "{inspected:?}, then {recovered:?}");
    }
    if recovered.is_ok() {
        let again = E::recover(memory, area).expect("what was recovered is whole");
        assert_eq!((again.replayed, again.rolled_back), (0, 0), "{recovered:?}, then {again:?}");
    }
}

/// The logs of the samples.
fn seeds() -> Vec<Vec<u8>> {
    let sample = |(of, image): (usize, &Vec<u8>)| {
        let start = 3 * PAGE as usize;
        let (header, segment) =
            (&image[start..][..HEADER], &image[start + PAGE as usize..][..4096]);
        [&[of as u8, 0], header, segment].concat()
    };
    POOLS.iter().enumerate().map(sample).collect()
}
