//! The header that the root `redis` leads to.
//!
//! Words: `0x5EED << 48 | version`, the first block of the garbage list, the seed of the
//! databases' hash maps (which [counts](turn) transactions while replicas follow), then for each database its keys and its expiries (0 until they are
//! needed), the libraries of functions (the same), and what is known of the server that is followed.
//!
//! Version 1 has no last block on its garbage list, nor hashes there that are freed where they are; version 2 has no
//! sets and lists, version 3 no streams and no functions. They become version 4 when they are opened to be written to,
//! version 1 not while the pool is full. Version 5 is one that has followed another server: a program that did not know of
//! it would change the data, and leave the place in the other server's stream.

use super::garbage;
use perdura::{Error, Purpose, Result, Root, Tx};

/// How many databases SELECT can choose from.
pub(crate) const DATABASES: u8 = 16;

const NAME: &str = "redis";
/// The root's kind.
pub(crate) const KIND: u32 = 1001;
const TAG: u64 = 0x5EED << 48;
const VERSION: u64 = 4;
/// The version of a keyspace that has followed another server.
const FOLLOWER: u64 = 5;
const OLD_VERSIONS: [u64; 3] = [1, 2, 3];
const WORDS: usize = 4 + 2 * DATABASES as usize;

/// Offset of the seed.
pub(super) const SEED: u64 = 16;
const FIRST: u64 = 24;
/// Offset of the libraries of functions: version 4 has it, in room that blocks of older headers have, too.
pub(super) const FUNCTIONS: u64 = database(DATABASES);
/// Offset of what is known of the server that is followed: version 5 has it, in room that all blocks have.
const FOLLOWED: u64 = FUNCTIONS + 8;

/// Offset of a database's two words.
pub(super) const fn database(index: u8) -> u64 {
    FIRST + 16 * index as u64
}

/// The header's offset, if the pool has a keyspace. An error that is not the pool's is a
/// sentence for the operator.
pub(crate) fn find(tx: &mut dyn Tx) -> Result<Result<Option<u64>, String>> {
    let Some(root) = tx.root(NAME)? else { return Ok(Ok(None)) };
    if root.kind != KIND {
        return Ok(Err(format!(
            "the pool's root '{NAME}' belongs to another program (kind {}): serve another pool",
            root.kind
        )));
    }
    let word = tx.read_word(root.at)?;
    if word & !0xFFFF != TAG {
        return Err(Error::corrupt("the keyspace's header", root.at));
    }
    if !is_latest(word) && !OLD_VERSIONS.contains(&(word ^ TAG)) {
        return Ok(Err(format!(
            "the pool's keyspace has format {}, and this program knows format {FOLLOWER}: use \
             the program that wrote it",
            word & 0xFFFF
        )));
    }
    Ok(Ok(Some(root.at)))
}

/// The word that [`turn`] changes: a transaction that reads it has a conflict with every one that does.
pub(crate) fn turns(tx: &mut dyn Tx, at: u64) -> Result<u64> {
    tx.read_word(at + SEED)
}

/// Gives the transaction a number: one more than that of the last one that was given one, and was committed. The word has
/// been the seed of hash maps, for which any value will do.
pub(crate) fn turn(tx: &mut dyn Tx, at: u64) -> Result<u64> {
    let number = turns(tx, at)?.wrapping_add(1);
    tx.write_word(at + SEED, number)?;
    Ok(number)
}

/// Whether a header with this first word has all that this program makes.
const fn is_latest(word: u64) -> bool {
    word == TAG | VERSION || word == TAG | FOLLOWER
}

/// Whether the keyspace's header has a place for libraries of functions.
pub(super) fn has_functions(tx: &mut dyn Tx, at: u64) -> Result<bool> {
    Ok(is_latest(tx.read_word(at)?))
}

/// Where it stands what is known of the server that is followed.
pub(super) fn followed(tx: &mut dyn Tx, at: u64) -> Result<Option<u64>> {
    match tx.read_word(at)? {
        word if word == TAG | FOLLOWER => tx.read_word(at + FOLLOWED).map(Some),
        _ => Ok(None),
    }
}

/// Sets that, for the first time.
pub(super) fn set_followed(tx: &mut dyn Tx, at: u64, followed: u64) -> Result<()> {
    if tx.usable(at)? < FOLLOWED + 8 || tx.read_word(at)? != TAG | VERSION {
        return Err(Error::Aborted(
            "the pool is of an old format: copy it by `perdura pool copy`".to_owned(),
        ));
    }
    tx.write_word(at + FOLLOWED, followed)?;
    tx.write_word(at, TAG | FOLLOWER)
}

/// The header's offset; a new one, in a pool that has none.
pub(crate) fn open(tx: &mut dyn Tx, seed: u64) -> Result<Result<u64, String>> {
    match find(tx)? {
        Ok(Some(at)) => {
            let has_room = tx.usable(at)? >= 8 * WORDS as u64;
            if !is_latest(tx.read_word(at)?) && has_room && garbage::keep_room(tx, at)? {
                tx.write_word(at + FUNCTIONS, 0)?;
                tx.write_word(at, TAG | VERSION)?;
            }
            Ok(Ok(at))
        }
        Ok(None) => {
            let new = tx.allocate(Purpose::General, 8 * WORDS as u64)?;
            let mut words = [0u64; WORDS];
            words[0] = TAG | VERSION;
            words[SEED as usize / 8] = seed;
            tx.write_fresh(new, 0, bytemuck::cast_slice(&words))?;
            let at = new.at();
            garbage::keep_room(tx, at)?;
            tx.set_root(NAME, Root { at, kind: KIND })?;
            Ok(Ok(at))
        }
        Err(why) => Ok(Err(why)),
    }
}
