//! Records go into another pool, into a file, and back.

use super::load::{Loaded, Loader};
use super::resp::Encoder;
use super::stream::Stream;
use super::{Going, TransferError, read, with_cause};
use crate::keyspace::followed::{self, Data};
use crate::keyspace::{self, now};
use perdura::{Handle, Tx};
use std::io::{Read, Write};

/// Commands are written to the file once they have this many bytes.
const CHUNK: usize = 256 << 10;

/// Copies the keyspace that `tx` sees to the pool of `to`, in several transactions; nothing if there is none. Keys
/// whose time has come are left out.
///
/// # Errors
/// See [`TransferError`]. All that was copied until then is in the pool.
pub fn copy(
    tx: &mut dyn Tx,
    to: &mut Handle,
    going: &mut Going<'_>,
) -> Result<Loaded, TransferError> {
    let Some(header) = keyspace::find(tx)?.map_err(TransferError::Keyspace)? else {
        return Ok(Loaded::default());
    };
    check_whole(tx, header)?;
    let mut loader = Loader::new(to)?;
    let mut bytes = 0;
    let keys = with_cause(|check| {
        read::all(tx, header, now(), &mut |record| {
            bytes += record.bytes() as u64;
            check(loader.add(record, 0))?;
            check(if going(bytes) { Ok(()) } else { Err(TransferError::Stopped) })
        })
    })?;
    loader.flush()?;
    match loader.made() {
        made if made == keys => loader.end(),
        found => Err(TransferError::Count { found, expected: keys }),
    }
}

/// Checks that the data is not a part of another server's, which was not read to its end.
fn check_whole(tx: &mut dyn Tx, header: u64) -> Result<(), TransferError> {
    match followed::read(tx, header)?.map(|followed| followed.data) {
        Some(Data::Incomplete) => Err(TransferError::Keyspace(
            "the pool has a part of the data of a server that it follows: let `perdura serve` follow it until it has all"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Writes the keyspace that `tx` sees to `to`; returns how many keys it has. Expired keys are left out.
///
/// # Errors
/// See [`TransferError`].
pub fn export(
    tx: &mut dyn Tx,
    to: &mut dyn Write,
    going: &mut Going<'_>,
) -> Result<u64, TransferError> {
    let header = keyspace::find(tx)?.map_err(TransferError::Keyspace)?;
    header.map_or(Ok(()), |header| check_whole(tx, header))?;
    let (mut encoder, mut buffer, mut bytes) = (Encoder::default(), Vec::new(), 0);
    encoder.begin(&mut buffer);
    let keys = match header {
        None => 0,
        Some(header) => with_cause(|check| {
            read::all(tx, header, now(), &mut |record| {
                encoder.record(&record, &mut buffer);
                if buffer.len() < CHUNK {
                    return Ok(());
                }
                bytes += buffer.len() as u64;
                check(to.write_all(&buffer).map_err(TransferError::File))?;
                buffer.clear();
                check(if going(bytes) { Ok(()) } else { Err(TransferError::Stopped) })
            })
        })?,
    };
    encoder.end(keys, &mut buffer);
    to.write_all(&buffer)?;
    to.flush()?;
    Ok(keys)
}

/// Reads commands and does them on the keyspace of the pool of `to`, which is made if it has none, in several
/// transactions.
///
/// # Errors
/// See [`TransferError`]. All that was read until then may be in the pool.
pub fn import(
    from: &mut dyn Read,
    to: &mut Handle,
    going: &mut Going<'_>,
) -> Result<Loaded, TransferError> {
    let (mut stream, mut loader) = (Stream::new(from), Loader::new(to)?);
    while let Some(records) = stream.next()? {
        for (record, at) in records {
            loader.add(record, at)?;
        }
        if !going(stream.total()) {
            return Err(TransferError::Stopped);
        }
    }
    loader.flush()?;
    match stream.announced() {
        Some(keys) if keys != loader.made() => Err(TransferError::Bad {
            at: stream.total(),
            what: format!(
                "the export has {} keys, and should have {keys}: it was damaged, or changed; export it again",
                loader.made()
            ),
        }),
        announced => {
            let (commands, has_end) = (stream.commands(), announced.is_some());
            Ok(Loaded { commands, has_end, ..loader.end()? })
        }
    }
}
