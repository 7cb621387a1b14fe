//! Writes replies, in the protocol version that the client asked for.

use super::number;

/// The protocol's version, which HELLO changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

/// The end of a client's output, where a command writes its reply.
pub(crate) struct Reply<'a> {
    bytes: &'a mut Vec<u8>,
    protocol: Protocol,
    /// The length up to which `bytes` may grow.
    most: usize,
    /// Whether more than that was to be written, so that the reply is not whole.
    cut: bool,
}

impl<'a> Reply<'a> {
    pub(crate) fn new(bytes: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Reply { bytes, protocol, most: usize::MAX, cut: false }
    }

    /// The same place, for at most `len` bytes more. Errors are written even beyond.
    pub(crate) fn at_most(self, len: usize) -> Self {
        Reply { most: self.bytes.len().saturating_add(len), ..self }
    }

    /// Whether it had more bytes than it may have, so that the reply is not whole.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The same place, for a shorter time.
    pub(crate) fn again(&mut self) -> Reply<'_> {
        Reply { bytes: self.bytes, protocol: self.protocol, most: self.most, cut: false }
    }

    fn resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    /// The reply is not whole: what was written [in its place](Reply::again) is not.
    pub(crate) fn cut(&mut self) {
        self.cut = true;
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes written since [`len`](Reply::len) was `len`.
    pub(crate) fn since(&self, len: usize) -> &[u8] {
        self.bytes.get(len..).unwrap_or_default()
    }

    /// Takes back the bytes written since [`len`](Reply::len) was `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
        self.cut = false;
    }

    /// Whether `len` more bytes may be written; if not, nothing may be any more.
    pub(crate) fn has_room(&mut self, len: usize) -> bool {
        self.cut |= self.bytes.len().saturating_add(len) > self.most;
        !self.cut
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        if self.has_room(bytes.len()) {
            self.bytes.extend_from_slice(bytes);
        }
    }

    pub(crate) fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error; `text` begins with its code. Line ends in it become spaces.
    pub(crate) fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        self.bytes.extend(text.bytes().map(|b| if b == b'\r' || b == b'\n' { b' ' } else { b }));
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(crate) fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    pub(crate) fn size(&mut self, value: u64) {
        self.header(b':', value as i64);
    }

    pub(crate) fn flag(&mut self, value: bool) {
        self.raw(if value { b":1\r\n" } else { b":0\r\n" });
    }

    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        if self.has_room(bytes.len()) {
            self.bytes.reserve(bytes.len() + 16);
            self.header(b'$', bytes.len() as i64);
            self.raw(bytes);
            self.raw(b"\r\n");
        }
    }

    /// A bulk string that `append` appends, after it has called its last argument with the string's length; if that
    /// returns false, it appends nothing.
    pub(crate) fn bulk_from<E>(
        &mut self,
        append: impl FnOnce(&mut Vec<u8>, &mut dyn FnMut(&mut Vec<u8>, u64) -> bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let (protocol, most, mut cut) = (self.protocol, self.most, self.cut);
        append(self.bytes, &mut |bytes, len| {
            let mut out = Reply { bytes, protocol, most, cut };
            let fits = out.has_room(len as usize);
            if fits {
                out.header(b'$', len as i64);
            }
            cut = out.cut;
            fits
        })?;
        self.cut = cut;
        self.raw(b"\r\n");
        Ok(())
    }

    pub(crate) fn null(&mut self) {
        self.raw(if self.resp3() { b"_\r\n" } else { b"$-1\r\n" });
    }

    pub(crate) fn null_array(&mut self) {
        self.raw(if self.resp3() { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// A number, with up to 17 digits.
    pub(crate) fn double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(24);
        number::push_f64(&mut text, value);
        if self.resp3() {
            self.line(b',', &text);
        } else {
            self.bulk(&text);
        }
    }

    pub(crate) fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    /// A message of `len` elements follows; in RESP2 it is an array.
    pub(crate) fn push(&mut self, len: usize) {
        self.header(if self.resp3() { b'>' } else { b'*' }, len as i64);
    }

    /// `pairs` pairs follow; in RESP2 they are an array.
    pub(crate) fn map(&mut self, pairs: usize) {
        if self.resp3() {
            self.header(b'%', pairs as i64);
        } else {
            self.header(b'*', 2 * pairs as i64);
        }
    }

    /// `len` distinct elements follow; in RESP2 they are an array.
    pub(crate) fn set(&mut self, len: usize) {
        self.header(if self.resp3() { b'~' } else { b'*' }, len as i64);
    }

    /// Text for people.
    pub(crate) fn verbatim(&mut self, text: &str) {
        if self.resp3() {
            self.header(b'=', text.len() as i64 + 4);
            self.raw(b"txt:");
            self.raw(text.as_bytes());
            self.raw(b"\r\n");
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// Answers a command's HELP: `lines` are of its subcommands.
    pub(crate) fn help(&mut self, name: &str, lines: &[&str]) {
        self.array(lines.len() + 3);
        self.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
        lines.iter().for_each(|line| self.simple(line));
        self.simple("HELP");
        self.simple("    Print this help.");
    }

    /// Puts `bytes` before those written since `start`.
    pub(crate) fn insert(&mut self, start: usize, bytes: &[u8]) {
        if self.has_room(bytes.len()) {
            self.bytes.extend_from_slice(bytes);
            self.bytes[start..].rotate_right(bytes.len());
        }
    }

    /// Puts an array's header before the bytes written since `start`.
    pub(crate) fn array_since(&mut self, start: usize, len: usize) {
        self.header_since(start, b'*', len);
    }

    /// Puts a map's header before the bytes written since `start`.
    pub(crate) fn map_since(&mut self, start: usize, pairs: usize) {
        if self.resp3() {
            self.header_since(start, b'%', pairs);
        } else {
            self.header_since(start, b'*', 2 * pairs);
        }
    }

    /// Puts a set's header before the bytes written since `start`.
    pub(crate) fn set_since(&mut self, start: usize, len: usize) {
        self.header_since(start, if self.resp3() { b'~' } else { b'*' }, len);
    }

    fn header_since(&mut self, start: usize, kind: u8, len: usize) {
        let end = self.bytes.len();
        self.header(kind, len as i64);
        let header = self.bytes.len() - end;
        self.bytes[start..].rotate_right(header);
    }

    #[inline]
    fn header(&mut self, kind: u8, value: i64) {
        match u8::try_from(value) {
            Ok(digit @ 0..10) if self.has_room(4) => {
                self.bytes.extend_from_slice(&[kind, b'0' + digit, b'\r', b'\n']);
            }
            Ok(both @ 10..100) if self.has_room(5) => {
                let digits = [b'0' + both / 10, b'0' + both % 10];
                self.bytes.extend_from_slice(&[kind, digits[0], digits[1], b'\r', b'\n']);
            }
            _ => self.long_header(kind, value),
        }
    }

    #[inline(never)]
    fn long_header(&mut self, kind: u8, value: i64) {
        let mut digits = itoa::Buffer::new();
        self.line(kind, digits.format(value).as_bytes());
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        if self.has_room(text.len() + 3) {
            self.bytes.push(kind);
            self.bytes.extend_from_slice(text);
            self.bytes.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl FnOnce(&mut Reply<'_>)) -> String {
        let mut bytes = Vec::new();
        write(&mut Reply::new(&mut bytes, protocol));
        String::from_utf8(bytes).unwrap()
    }

    type Write = fn(&mut Reply<'_>);

    #[test]
    fn both_versions() {
        let cases: [(Write, &str, &str); 7] = [
            (|r| r.null(), "$-1\r\n", "_\r\n"),
            (|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (|r| r.map(2), "*4\r\n", "%2\r\n"),
            (|r| r.set(2), "*2\r\n", "~2\r\n"),
            (|r| r.bulk(b"ab"), "$2\r\nab\r\n", "$2\r\nab\r\n"),
            (|r| r.verbatim("ab"), "$2\r\nab\r\n", "=6\r\ntxt:ab\r\n"),
            (|r| r.error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
        ];
        for (write, two, three) in cases {
            assert_eq!(written(Protocol::Resp2, write), two);
            assert_eq!(written(Protocol::Resp3, write), three);
        }
    }

    #[test]
    fn a_header_can_come_late() {
        let text = written(Protocol::Resp2, |reply| {
            let start = reply.len();
            reply.integer(1);
            reply.integer(2);
            reply.array_since(start, 2);
        });
        assert_eq!(text, "*2\r\n:1\r\n:2\r\n");
    }
}
