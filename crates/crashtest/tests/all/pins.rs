//! Memory that a transaction has come to reach since it began is not reused under it.

use perdura::{AnyHeap, AnySession, EngineKind, Format, Purpose, Root, Tx, TxExt};
use perdura_engine::planted::{self, Bug};
use perdura_memory::{AnyMemory, Ram};
use std::sync::Arc;

const BYTES: u64 = 2 << 20;
const LEN: u64 = 2000;
const OLD: u8 = 0xAA;
const NEW: u8 = 0xBB;
/// Words of the root: a block, another one, a counter; each on a line of its own.
const BLOCK: u64 = 0;
const OTHER: u64 = 64;
const COUNTER: u64 = 128;

fn filled(tx: &mut dyn Tx, byte: u8) -> perdura::Result<u64> {
    tx.new_bytes(Purpose::Value, &vec![byte; LEN as usize])
}

/// Replaces the block in a word of the root.
fn replace(session: &mut AnySession, at: u64, byte: Option<u8>) {
    let change = |tx: &mut dyn Tx| {
        let old = tx.read_word(at)?;
        if old != 0 {
            tx.free(old)?;
        }
        let new = byte.map_or(Ok(0), |byte| filled(tx, byte))?;
        tx.write_word(at, new)
    };
    session.transaction(change).unwrap();
}

/// The clock's number goes on: two sessions store to the same word in turn.
fn pass_time(sessions: &mut [AnySession; 2], at: u64) {
    for _ in 0..4 {
        for session in &mut *sessions {
            let count = |tx: &mut dyn Tx| {
                let count = tx.read_word(at)?;
                tx.write_word(at, count + 1)
            };
            session.transaction(count).unwrap();
        }
    }
}

/// A transaction begins, then comes to see a later commit with a block, which is freed while it looks elsewhere. The byte
/// that it reads in the block.
fn byte_seen() -> u64 {
    let memory = Arc::new(AnyMemory::new(Arc::new(Ram::new(BYTES))));
    let format = Format { limit: BYTES, log: Some(0), id: 1, requires: None, checksums: false };
    let heap = <dyn AnyHeap>::create(EngineKind::CcStm, memory, format).unwrap();
    let mut sessions = [heap.session().unwrap(), heap.session().unwrap()];
    let root = sessions[0].transaction(|tx| {
        let at = filled(tx, 0)?;
        [BLOCK, OTHER, COUNTER].into_iter().try_for_each(|word| tx.write_word(at + word, 0))?;
        tx.set_root("root", Root { at, kind: 1_999 }).map(|_| at)
    });
    let root = root.unwrap();
    replace(&mut sessions[0], root + OTHER, Some(OLD));
    let (mut reader, mut runs) = (heap.session().unwrap(), 0);
    let seen = reader.read(|tx| {
        runs += 1;
        assert_eq!(runs, 1, "nothing that it reads changes before the end");
        tx.read_word(root + 256)?;
        // Something is held back for it: from here on allocations are noted.
        replace(&mut sessions[0], root + OTHER, None);
        heap.checkpoint()?;
        pass_time(&mut sessions, root + COUNTER);
        replace(&mut sessions[0], root + BLOCK, Some(OLD));
        pass_time(&mut sessions, root + COUNTER);
        let block = tx.read_word(root + BLOCK)?;
        replace(&mut sessions[0], root + BLOCK, None);
        heap.checkpoint()?;
        for _ in 0..8 {
            sessions[0].transaction(|tx| filled(tx, NEW)).unwrap();
        }
        Ok(tx.read_word(block + LEN / 2)? & 0xFF)
    });
    seen.unwrap()
}

#[test]
fn moved_to_a_later_moment() {
    assert_eq!(byte_seen(), u64::from(OLD));
    assert_eq!(planted::with(Bug::MovedUnpinned, byte_seen), u64::from(NEW));
}

#[test]
fn nothing_known_of_the_allocation() {
    assert_eq!(planted::with(Bug::HorizonIgnoresRunning, byte_seen), u64::from(NEW));
}
