//! A command's own reply, read again: what a command has drawn or numbered is in it.

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Bulk(&'a [u8]),
    /// An array, a set, or a map with its keys and values in turns.
    Array(Vec<Value<'a>>),
    /// Anything else.
    Other,
}

/// Arrays in arrays.
const DEEPEST: u32 = 8;

impl<'a> Value<'a> {
    /// The first reply in these bytes; `None` if it is not whole.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut bytes = bytes;
        next(&mut bytes, DEEPEST)
    }

    /// The string, if it is one.
    pub(super) fn bulk(&self) -> Option<&'a [u8]> {
        if let Value::Bulk(bytes) = self { Some(bytes) } else { None }
    }
}

fn next<'a>(bytes: &mut &'a [u8], depth: u32) -> Option<Value<'a>> {
    let (kind, rest) = bytes.split_first()?;
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    let line = std::str::from_utf8(&rest[..end]).ok()?;
    *bytes = &rest[end + 2..];
    match kind {
        b'$' | b'=' => {
            let Ok(len) = line.parse::<usize>() else { return Some(Value::Other) };
            let (text, rest) = bytes.split_at_checked(len)?;
            *bytes = rest.strip_prefix(b"\r\n")?;
            Some(Value::Bulk(text))
        }
        b'*' | b'~' | b'%' | b'>' => {
            let Ok(len) = line.parse::<usize>() else { return Some(Value::Other) };
            let depth = depth.checked_sub(1)?;
            let len = if *kind == b'%' { len * 2 } else { len };
            (0..len).map(|_| next(bytes, depth)).collect::<Option<_>>().map(Value::Array)
        }
        _ => Some(Value::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read() {
        let bulk = |text: &'static str| Value::Bulk(text.as_bytes());
        for (bytes, value) in [
            ("$3\r\na\r\r\r\n", bulk("a\r\r")),
            ("$-1\r\n", Value::Other),
            ("_\r\n", Value::Other),
            (":12\r\n", Value::Other),
            (
                "*2\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n",
                Value::Array(vec![bulk("a"), Value::Array(vec![bulk("b")])]),
            ),
            ("%1\r\n$1\r\na\r\n~0\r\n", Value::Array(vec![bulk("a"), Value::Array(vec![])])),
        ] {
            assert_eq!(Value::read(bytes.as_bytes()), Some(value), "{bytes}");
            for len in 0..bytes.len() {
                assert_eq!(Value::read(&bytes.as_bytes()[..len]), None, "{bytes}");
            }
        }
        assert_eq!(Value::read("*1\r\n".repeat(100).as_bytes()), None);
    }
}
