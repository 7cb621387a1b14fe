//! Reads requests from a byte stream that arrives in pieces.
//!
//! Written here, and not taken from the `redis-protocol` crate, for three reasons: that decoder
//! starts again from the request's first byte whenever a piece is missing (quadratic for large
//! requests), it knows no limits and no inline commands, and it makes a tree of owned values,
//! where spans of the buffer do.
//!
//! Always true:
//! - every byte is looked at twice at most, whatever the pieces: once for a whole request, as most come, and once step by
//!   step;
//! - no memory is reserved for announced lengths: it grows with the bytes that arrived;
//! - a request is refused as soon as it says that it is larger than it may be;
//! - after an error the stream is dead: nothing that follows is read.

use super::args::{Args, Span};
use super::{inline, number};
use std::io::{self, Read};

/// How large things may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Arguments of a request.
    pub(crate) arguments: i64,
    /// Bytes of an argument.
    pub(crate) bulk: i64,
    /// Bytes of a request, as it is sent, and those that its arguments beyond the first [`FREE`] take here besides.
    pub(crate) request: usize,
}

/// Arguments that a request may have before their memory is counted.
const FREE: usize = 1 << 20;

impl Limits {
    pub(crate) const USUAL: Limits =
        Limits { arguments: i32::MAX as i64, bulk: 512 << 20, request: 1 << 30 };
    /// For a client that has yet to give the password.
    pub(crate) const UNAUTHENTICATED: Limits =
        Limits { arguments: 10, bulk: 16384, request: 256 << 10 };
}

/// Bytes that an inline request, or the line that announces a length, may have.
const LINE: usize = 64 << 10;
/// Room for one read.
const CHUNK: usize = 16 << 10;
/// Up to here a buffer doubles when it grows; beyond, it grows by a quarter.
const DOUBLES: usize = 1 << 20;
/// A buffer that grew beyond this is given back once it is empty.
const KEEP: usize = 1 << 20;

/// The error that made the stream unreadable, in Redis's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolError(pub(crate) String);

fn broken<T>(what: &str) -> Result<T, ProtocolError> {
    Err(ProtocolError(what.to_owned()))
}

/// A complete request, good until [`RequestReader::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    first: usize,
    count: usize,
}

impl Request {
    /// Its arguments, the command's name first.
    pub(crate) fn count(self) -> usize {
        self.count
    }
}

/// A buffer and the place where reading stopped.
#[derive(Debug, Default)]
pub(crate) struct RequestReader {
    /// Bytes up to `filled` came from the client; the rest is room.
    buffer: Vec<u8>,
    filled: usize,
    /// Bytes before this belong to finished requests.
    finished: usize,
    /// The next byte to look at.
    next: usize,
    /// How far a line's end was looked for.
    searched: usize,
    /// Arguments that the request under way still lacks.
    missing: usize,
    /// The length of the argument under way.
    bulk: Option<usize>,
    /// Arguments of finished requests, then of the one under way (from `first`).
    spans: Vec<Span>,
    first: usize,
}

impl RequestReader {
    /// Makes room for the next [`fill`](RequestReader::fill), and says how much.
    pub(crate) fn prepare(&mut self) -> usize {
        if self.buffer.len() - self.filled < CHUNK {
            let len = self.buffer.len();
            let mut grown = if len < DOUBLES { len * 2 } else { len + len / 4 };
            if let Some(bulk) = self.bulk {
                // The arguments after the one under way are still unknown.
                grown = grown.min(self.next + bulk + CHUNK);
            }
            let grown = grown.max(self.filled + CHUNK);
            self.buffer.reserve_exact(grown - len);
            self.buffer.resize(grown, 0);
        }
        self.buffer.len() - self.filled
    }

    /// Reads once from `source`, as much as there is room for. `Ok(0)` is its end.
    pub(crate) fn fill(&mut self, source: &mut impl Read) -> io::Result<usize> {
        self.prepare();
        let read = source.read(&mut self.buffer[self.filled..])?;
        self.filled += read;
        Ok(read)
    }

    /// The next complete request that has arguments.
    pub(crate) fn next(&mut self, limits: Limits) -> Result<Option<Request>, ProtocolError> {
        loop {
            if self.missing == 0 && self.bulk.is_none() {
                if self.read_whole(limits) {
                    return Ok(Some(self.finish()));
                }
                match self.start(limits)? {
                    Start::Partial => return Ok(None),
                    Start::Empty => continue,
                    Start::Inline => return Ok(Some(self.finish())),
                    Start::Multibulk => {}
                }
            }
            while self.missing > 0 {
                if !self.argument(limits)? {
                    return Ok(None);
                }
            }
            return Ok(Some(self.finish()));
        }
    }

    /// The arguments of a request.
    pub(crate) fn args(&self, request: Request) -> Args<'_> {
        let spans = &self.spans[request.first..request.first + request.count];
        Args::new(&self.buffer, spans)
    }

    /// Bytes that came and belong to no finished request.
    pub(crate) fn unread(&self) -> usize {
        self.filled - self.finished
    }

    /// Forgets finished requests and makes their room free.
    pub(crate) fn release(&mut self) {
        let shift = self.finished;
        if shift == 0 {
            return;
        }
        self.buffer.copy_within(shift..self.filled, 0);
        self.filled -= shift;
        self.next -= shift;
        self.searched = self.searched.saturating_sub(shift);
        self.finished = 0;
        self.spans.drain(..self.first);
        self.first = 0;
        for span in &mut self.spans {
            span.start -= shift;
        }
        if self.buffer.len() > KEEP && self.filled < CHUNK {
            self.buffer.truncate(CHUNK.max(self.filled));
            self.buffer.shrink_to_fit();
        }
        if self.spans.capacity() > KEEP / size_of::<Span>() && self.spans.is_empty() {
            self.spans = Vec::new();
        }
    }

    /// Gives the buffer back, if it is empty.
    pub(crate) fn rest(&mut self) {
        if self.filled == 0 && self.spans.is_empty() {
            *self = RequestReader::default();
        }
    }

    fn finish(&mut self) -> Request {
        let request = Request { first: self.first, count: self.spans.len() - self.first };
        self.first = self.spans.len();
        self.finished = self.next;
        request
    }

    /// Reads a request of arguments with lengths, if all of it is there and nothing about it is unusual. Otherwise
    /// nothing has changed: whatever it is, reading it step by step finds out.
    fn read_whole(&mut self, limits: Limits) -> bool {
        let bytes = &self.buffer[..self.filled];
        let Some((count, mut at)) = announcement(bytes, self.next, b'*') else { return false };
        if count == 0 || count > FREE || count as i64 > limits.arguments {
            return false;
        }
        for _ in 0..count {
            let argument = announcement(bytes, at, b'$').filter(|(len, start)| {
                *len as i64 <= limits.bulk && bytes.len() - start >= *len + 2
            });
            let Some((len, start)) = argument else {
                self.spans.truncate(self.first);
                return false;
            };
            self.spans.push(Span::new(start, len));
            at = start + len + 2;
        }
        // The bytes after the last argument do not count.
        if at - 2 - self.finished > limits.request {
            self.spans.truncate(self.first);
            return false;
        }
        self.next = at;
        self.searched = at;
        true
    }

    /// Reads the line that a request begins with.
    fn start(&mut self, limits: Limits) -> Result<Start, ProtocolError> {
        match self.buffer[..self.filled].get(self.next) {
            None => Ok(Start::Partial),
            Some(b'*') => self.multibulk(limits),
            Some(_) => self.inline(),
        }
    }

    fn multibulk(&mut self, limits: Limits) -> Result<Start, ProtocolError> {
        let Some(line) = self.line("Protocol error: too big mbulk count string")? else {
            return Ok(Start::Partial);
        };
        match number::parse_i64(&self.buffer[line.start + 1..line.end]) {
            Some(count) if count > limits.arguments && count <= Limits::USUAL.arguments => {
                broken("Protocol error: unauthenticated multibulk length")
            }
            Some(count) if count <= limits.arguments => {
                self.missing = count.max(0) as usize;
                if self.missing > 0 {
                    return Ok(Start::Multibulk);
                }
                self.finished = self.next;
                Ok(Start::Empty)
            }
            _ => broken("Protocol error: invalid multibulk length"),
        }
    }

    fn inline(&mut self) -> Result<Start, ProtocolError> {
        let begin = self.next;
        let from = self.searched.max(begin);
        let end = self.buffer[from..self.filled].iter().position(|&byte| byte == b'\n');
        self.searched = self.filled;
        let Some(end) = end.map(|end| from + end) else {
            if self.filled - begin > LINE {
                return broken("Protocol error: too big inline request");
            }
            return Ok(Start::Partial);
        };
        if end - begin > LINE {
            return broken("Protocol error: too big inline request");
        }
        self.next = end + 1;
        self.searched = self.next;
        let end = if end > begin && self.buffer[end - 1] == b'\r' { end - 1 } else { end };
        if !inline::split(&mut self.buffer, begin..end, &mut self.spans) {
            return broken("Protocol error: unbalanced quotes in request");
        }
        if self.spans.len() > self.first {
            return Ok(Start::Inline);
        }
        self.finished = self.next;
        Ok(Start::Empty)
    }

    /// Reads on in the argument under way. False if it is not all there.
    fn argument(&mut self, limits: Limits) -> Result<bool, ProtocolError> {
        let len = match self.bulk {
            Some(len) => len,
            None => match self.announced(limits)? {
                Some(len) => len,
                None => return Ok(false),
            },
        };
        self.bulk = Some(len);
        let beyond = (self.spans.len() - self.first).saturating_sub(FREE) * size_of::<Span>();
        if self.next + len - self.finished + beyond > limits.request {
            return broken("Protocol error: too big request");
        }
        // The two bytes after an argument are skipped unseen, as Redis does.
        if self.filled - self.next < len + 2 {
            return Ok(false);
        }
        self.spans.push(Span::new(self.next, len));
        self.next += len + 2;
        self.searched = self.next;
        self.bulk = None;
        self.missing -= 1;
        Ok(true)
    }

    /// The length in the line before an argument.
    fn announced(&mut self, limits: Limits) -> Result<Option<usize>, ProtocolError> {
        let begin = self.next;
        let Some(line) = self.line("Protocol error: too big bulk count string")? else {
            return Ok(None);
        };
        if self.buffer[begin] != b'$' {
            let got = self.buffer[begin];
            let got = if got.is_ascii_graphic() || got == b' ' { char::from(got) } else { '?' };
            return broken(&format!("Protocol error: expected '$', got '{got}'"));
        }
        match number::parse_i64(&self.buffer[line.start + 1..line.end]) {
            Some(len) if (0..=limits.bulk).contains(&len) => Ok(Some(len as usize)),
            Some(len) if (0..=Limits::USUAL.bulk).contains(&len) => {
                broken("Protocol error: unauthenticated bulk length")
            }
            _ => broken("Protocol error: invalid bulk length"),
        }
    }

    /// The line at `next`, without its end, which is stepped over.
    fn line(&mut self, too_long: &str) -> Result<Option<std::ops::Range<usize>>, ProtocolError> {
        let begin = self.next;
        let from = self.searched.max(begin);
        let end = self.buffer[from..self.filled].iter().position(|&byte| byte == b'\r');
        match end.map(|end| from + end) {
            Some(end) if end - begin > LINE => broken(too_long),
            Some(end) if end + 1 < self.filled => {
                self.next = end + 2;
                self.searched = self.next;
                Ok(Some(begin..end))
            }
            None if self.filled - begin > LINE => broken(too_long),
            end => {
                self.searched = end.unwrap_or(self.filled);
                Ok(None)
            }
        }
    }
}

/// A number of up to nine digits in a line at `at` that begins with `mark`, and the place after the line. `None` if
/// the line is not all there, or is written in an unusual way.
#[inline]
fn announcement(bytes: &[u8], at: usize, mark: u8) -> Option<(usize, usize)> {
    let line = bytes.get(at..)?;
    // Most have one digit, or two.
    if let Some(&[found, first, second, third, fourth]) = line.first_chunk()
        && found == mark
    {
        let (tens, ones) = (first.wrapping_sub(b'0'), second.wrapping_sub(b'0'));
        if (second, third) == (b'\r', b'\n') && tens < 10 {
            return Some((tens.into(), at + 4));
        }
        if (third, fourth) == (b'\r', b'\n') && (1..10).contains(&tens) && ones < 10 {
            return Some((usize::from(10 * tens + ones), at + 5));
        }
    }
    let (first, rest) = match *line {
        [found, first @ b'1'..=b'9', ref rest @ ..] if found == mark => (first, rest),
        [found, b'0', b'\r', b'\n', ..] if found == mark => return Some((0, at + 4)),
        _ => return None,
    };
    let mut number = usize::from(first - b'0');
    for (index, byte) in rest.iter().enumerate().take(9) {
        match byte {
            b'0'..=b'9' if index < 8 => number = 10 * number + usize::from(byte - b'0'),
            b'\r' if rest.get(index + 1) == Some(&b'\n') => return Some((number, at + index + 4)),
            _ => return None,
        }
    }
    None
}

/// The kind of a request's first line.
enum Start {
    Partial,
    Empty,
    Inline,
    Multibulk,
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
