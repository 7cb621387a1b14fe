//! Replies of `perdura-server`, taken apart, so that the host can make them anew.

/// One element of a reply; those of an array, a map or a set follow it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Item<'a> {
    Simple(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Bulk(&'a [u8]),
    Null,
    NullArray,
    Array(usize),
    /// So many pairs.
    Map(usize),
    Set(usize),
    Double(f64),
    Bool(bool),
    BigNumber(&'a [u8]),
    /// Three letters, and a text.
    Verbatim(&'a [u8], &'a [u8]),
}

/// The elements of a reply. One that is malformed ends it.
pub(crate) struct Items<'a>(&'a [u8]);

impl<'a> Items<'a> {
    pub(crate) fn new(reply: &'a [u8]) -> Self {
        Items(reply)
    }

    fn line(&mut self) -> Option<(u8, &'a [u8])> {
        let end = self.0.windows(2).position(|pair| pair == b"\r\n")?;
        let (line, rest) = (&self.0[..end], &self.0[end + 2..]);
        self.0 = rest;
        line.split_first().map(|(kind, line)| (*kind, line))
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let bytes = self.0.get(..len)?;
        self.0 = self.0.get(len + 2..)?;
        Some(bytes)
    }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let (kind, line) = self.line()?;
        Some(match kind {
            b'+' => Item::Simple(line),
            b'-' => Item::Error(line),
            b':' => Item::Integer(number(line)?),
            b'$' if line == b"-1" => Item::Null,
            b'$' => Item::Bulk(self.bytes(number(line)?)?),
            b'*' if line == b"-1" => Item::NullArray,
            b'*' | b'>' => Item::Array(number(line)?),
            b'%' => Item::Map(number(line)?),
            b'~' => Item::Set(number(line)?),
            b',' => Item::Double(number(line)?),
            b'#' => Item::Bool(line == b"t"),
            b'_' => Item::Null,
            b'(' => Item::BigNumber(line),
            b'=' => {
                let bytes = self.bytes(number(line)?)?;
                Item::Verbatim(bytes.get(..3)?, bytes.get(4..)?)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_taken_apart() {
        let reply = b"*4\r\n+OK\r\n$4\r\na\r\nb\r\n:-7\r\n$-1\r\n%1\r\n,inf\r\n#t\r\n=7\r\ntxt:abc\r\n*-1\r\n_\r\n";
        let items: Vec<_> = Items::new(reply).collect();
        let wanted = [
            Item::Array(4),
            Item::Simple(b"OK"),
            Item::Bulk(b"a\r\nb"),
            Item::Integer(-7),
            Item::Null,
            Item::Map(1),
            Item::Double(f64::INFINITY),
            Item::Bool(true),
            Item::Verbatim(b"txt", b"abc"),
            Item::NullArray,
            Item::Null,
        ];
        assert_eq!(items, wanted);
    }

    #[test]
    fn malformed_replies_end() {
        for reply in [&b"$5\r\nab\r\n"[..], b"?1\r\n", b":x\r\n", b"=2\r\nab\r\n", b"+OK", b"\r\n"]
        {
            assert_eq!(Items::new(reply).count(), 0, "{reply:?}");
        }
    }
}
