//! What the pool knows of the server that it follows: which one, and how much of its data is here.
//!
//! The header's word `FOLLOWED` leads to a block: `0xF011 << 48`, with flags and what the data is in the lowest bytes; the
//! place in the master's stream; the stream's database and the master's port; the stream's name, in 40 bytes; the length
//! of the master's address, and the address. The place is changed by the transaction that performs what comes before it,
//! so that a server which is killed goes on exactly there.

use super::header;
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Tx};

const TAG: u64 = 0xF011 << 48;
const PLACE: u64 = 8;
const TO: u64 = 16;
const NAME: u64 = 24;
const HOST_LEN: u64 = 64;
const HOST: u64 = 72;
/// Bytes of a stream's name, and of an address.
pub(crate) const NAME_LEN: usize = 40;
pub(crate) const HOST_MAX: usize = 255;
const BYTES: usize = HOST as usize + 256;
/// Flags in the first word, after [`Data`].
const TOLD: u64 = 1 << 8;
const FOLLOWS: u64 = 1 << 9;

/// A place in a master's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The stream's name.
    pub(crate) id: [u8; NAME_LEN],
    /// Bytes before it.
    pub(crate) at: u64,
    /// The database that is chosen there.
    pub(crate) db: u8,
}

/// What the data is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Data {
    /// The server's own.
    #[default]
    Own,
    /// A part of a master's: never to be shown.
    Incomplete,
    /// A master's, as of this place in its stream.
    Copy(Place),
}

/// The block's contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Followed {
    /// The master's address and port; `None` if nobody is followed.
    pub(crate) master: Option<(String, u16)>,
    /// Whether a client has said so, and not the server's options.
    pub(crate) told: bool,
    pub(crate) data: Data,
}

/// What is known; `None` if nobody was ever followed.
///
/// # Errors
/// As a read; `Corrupt`.
pub(crate) fn read(tx: &mut dyn Tx, header: u64) -> Result<Option<Followed>> {
    let Some(at) = header::followed(tx, header)? else { return Ok(None) };
    let word = tx.read_word(at).map_err(Error::in_pool)?;
    let damaged = || Error::corrupt("what is known of a master", at);
    if word & !0xFFFF != TAG {
        return Err(damaged());
    }
    let to = tx.read_word(at + TO)?;
    let (db, port) = (to as u8, (to >> 16) as u16);
    let data = match word & 0xFF {
        0 => Data::Own,
        1 => Data::Incomplete,
        2 if db < super::DATABASES => {
            let mut id = [0; NAME_LEN];
            tx.read_bytes(at + NAME, &mut id)?;
            Data::Copy(Place { id, at: tx.read_word(at + PLACE)?, db })
        }
        _ => return Err(damaged()),
    };
    let len = usize::try_from(tx.read_word(at + HOST_LEN)?).ok().filter(|len| *len <= HOST_MAX);
    let mut host = vec![0; len.ok_or_else(damaged)?];
    tx.read_bytes(at + HOST, &mut host)?;
    let host = String::from_utf8(host).map_err(|_| damaged())?;
    let master = (word & FOLLOWS != 0).then_some((host, port));
    Ok(Some(Followed { master, told: word & TOLD != 0, data }))
}

/// Writes it, in a block that is made if there is none.
///
/// # Errors
/// As a write.
pub(crate) fn write(tx: &mut dyn Tx, header: u64, followed: &Followed) -> Result<()> {
    let mut bytes = [0; BYTES];
    let (kind, place) = match &followed.data {
        Data::Own => (0, None),
        Data::Incomplete => (1, None),
        Data::Copy(place) => (2, Some(place)),
    };
    let mut word = TAG | kind;
    word |= if followed.told { TOLD } else { 0 };
    word |= if followed.master.is_some() { FOLLOWS } else { 0 };
    let (host, port) = followed.master.as_ref().map_or(("", 0), |(host, port)| (host, *port));
    let to = place.map_or(0, |place| u64::from(place.db)) | u64::from(port) << 16;
    let mut put = |at: u64, part: &[u8]| {
        bytes[at as usize..at as usize + part.len()].copy_from_slice(part);
    };
    put(0, &word.to_le_bytes());
    put(PLACE, &place.map_or(0, |place| place.at).to_le_bytes());
    put(TO, &to.to_le_bytes());
    put(NAME, place.map_or(&[0; NAME_LEN], |place| &place.id));
    put(HOST_LEN, &(host.len() as u64).to_le_bytes());
    put(HOST, host.as_bytes());
    let at = match header::followed(tx, header)? {
        Some(at) => at,
        None => {
            let new = tx.allocate(Purpose::General, BYTES as u64)?;
            tx.write_fresh(new, 0, &bytes)?;
            return header::set_followed(tx, header, new.at());
        }
    };
    for (index, word) in bytes.chunks_exact(8).enumerate() {
        let word = u64::from_le_bytes(std::array::from_fn(|byte| word[byte]));
        tx.write_word(at + 8 * index as u64, word)?;
    }
    Ok(())
}

/// The transaction performs what the master's stream has up to `place`; the stream is the same as before.
///
/// # Errors
/// As a write.
pub(crate) fn advance(tx: &mut dyn Tx, header: u64, at: u64, db: u8) -> Result<()> {
    let Some(block) = header::followed(tx, header)? else {
        return Err(Error::corrupt("nothing is known of a master", header));
    };
    tx.write_word(block + PLACE, at)?;
    let to = tx.read_word(block + TO)?;
    tx.write_word(block + TO, to & !0xFF | u64::from(db))
}

/// Reports the block, if there is one.
pub(super) fn check(tx: &mut dyn Tx, header: u64, visit: &mut Visit<'_>) -> Result<()> {
    if let Some(at) = header::followed(tx, header)? {
        visit(at)?;
        read(tx, header)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace;

    #[test]
    fn it_is_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let options = perdura::Options::new().size(16 << 20).domain(Some(perdura::Domain::Process));
        let pool = options.open_or_create(folder.path().join("pool")).unwrap();
        let mut handle = pool.session().unwrap();
        let header = handle.transaction(|tx| keyspace::open(tx, 1)).unwrap().unwrap();
        assert_eq!(handle.read(|tx| read(tx, header)).unwrap(), None);
        let place = Place { id: [b'f'; NAME_LEN], at: u64::MAX - 1, db: 15 };
        let all = [
            (Some(("::1".to_owned(), 65535)), true, Data::Copy(place.clone())),
            (Some(("h".repeat(HOST_MAX), 1)), false, Data::Incomplete),
            (None, true, Data::Own),
        ];
        for (master, told, data) in all {
            let followed = Followed { master, told, data };
            handle.transaction(|tx| write(tx, header, &followed)).unwrap();
            assert_eq!(handle.read(|tx| read(tx, header)).unwrap(), Some(followed));
        }
        let data = Data::Copy(place.clone());
        let followed = Followed { master: Some(("a".to_owned(), 7)), told: false, data };
        handle.transaction(|tx| write(tx, header, &followed)).unwrap();
        handle.transaction(|tx| advance(tx, header, 17, 3)).unwrap();
        let data = Data::Copy(Place { at: 17, db: 3, ..place });
        let expected = Followed { data, ..followed };
        assert_eq!(handle.read(|tx| read(tx, header)).unwrap(), Some(expected));
        // It is one of the keyspace's blocks, and the keyspace is opened as before.
        let mut blocks = 0;
        let count = &mut |_| {
            blocks += 1;
            Ok(())
        };
        handle.read(|tx| keyspace::check(tx, count)).unwrap().unwrap();
        assert!(blocks >= 2);
        assert_eq!(handle.transaction(|tx| keyspace::open(tx, 1)).unwrap(), Ok(header));
        assert!(handle.read(|tx| read(tx, header)).unwrap().is_some());
    }
}
