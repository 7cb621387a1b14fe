//! For fuzzing: the readers of a client's bytes, without sockets and files.

pub use crate::command::harness::Bench;

use crate::protocol::{Limits, RequestReader};

/// Requests: the arguments of each, the command's name first.
pub type Commands = Vec<Vec<Vec<u8>>>;

/// Reads requests from a stream that arrives in these pieces. Returns the requests, and the error that made the
/// stream unreadable, if something did.
///
/// # Panics
/// Never: a slice can always be read.
pub fn requests(pieces: &[&[u8]]) -> (Commands, Option<String>) {
    read(pieces, Limits::USUAL)
}

/// As [`requests`], with these limits.
pub(crate) fn read(pieces: &[&[u8]], limits: Limits) -> (Commands, Option<String>) {
    let mut reader = RequestReader::default();
    let mut requests = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            reader.fill(&mut rest).expect("a slice can be read");
        }
        loop {
            match reader.next(limits) {
                Ok(Some(request)) => {
                    requests.push(reader.args(request).iter().map(<[u8]>::to_vec).collect());
                }
                Ok(None) => break,
                Err(error) => return (requests, Some(error.0)),
            }
        }
        reader.release();
    }
    (requests, None)
}
