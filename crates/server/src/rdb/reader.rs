//! Reads lengths and strings.

/// The bytes are not those of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Bytes of the longest string.
const STRING_MAX: usize = 512 << 20;

/// A length, or a way in which a string is kept.
enum Len {
    Of(u64),
    Special(u8),
}

#[derive(Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// How many bytes more the last failure would have needed; 0 if more would not have helped.
    lacks: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, lacks: 0 }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes that are left.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many bytes more the failure would have needed; 0 if more would not have helped.
    pub(crate) fn lacks(&self) -> usize {
        self.lacks
    }

    /// How many are left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    /// Passes a string, without decompressing it.
    pub(crate) fn skip_string(&mut self) -> Result<(), Malformed> {
        let len = match self.any_len()? {
            Len::Of(len) => len,
            Len::Special(kind @ 0..3) => 1 << kind,
            Len::Special(3) => {
                let (packed, _) = (self.len()?, self.len()?);
                packed
            }
            Len::Special(_) => return Err(Malformed),
        };
        self.take(usize::try_from(len).map_err(|_| Malformed)?).map(drop)
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let Some((taken, rest)) = self.bytes.split_at_checked(len) else {
            self.lacks = len - self.bytes.len();
            return Err(Malformed);
        };
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn any_len(&mut self) -> Result<Len, Malformed> {
        let first = self.byte()?;
        Ok(match first >> 6 {
            0 => Len::Of(u64::from(first)),
            1 => Len::Of(u64::from(first & 0x3F) << 8 | u64::from(self.byte()?)),
            2 if first == 0x80 => Len::Of(u64::from(u32::from_be_bytes(self.array()?))),
            2 if first == 0x81 => Len::Of(u64::from_be_bytes(self.array()?)),
            3 => Len::Special(first & 0x3F),
            _ => return Err(Malformed),
        })
    }

    pub(crate) fn len(&mut self) -> Result<u64, Malformed> {
        match self.any_len()? {
            Len::Of(len) => Ok(len),
            Len::Special(_) => Err(Malformed),
        }
    }

    pub(crate) fn string(&mut self) -> Result<Vec<u8>, Malformed> {
        let number = |number: i64| Ok(number.to_string().into_bytes());
        match self.any_len()? {
            Len::Of(len) => {
                let len = usize::try_from(len).map_err(|_| Malformed)?;
                self.take(len).map(<[u8]>::to_vec)
            }
            Len::Special(0) => number(i64::from(i8::from_le_bytes(self.array()?))),
            Len::Special(1) => number(i64::from(i16::from_le_bytes(self.array()?))),
            Len::Special(2) => number(i64::from(i32::from_le_bytes(self.array()?))),
            Len::Special(3) => {
                let (packed, len) = (self.len()?, self.len()?);
                let packed = self.take(usize::try_from(packed).map_err(|_| Malformed)?)?;
                let len = usize::try_from(len).ok().filter(|len| *len <= STRING_MAX);
                unpack(packed, len.ok_or(Malformed)?)
            }
            Len::Special(_) => Err(Malformed),
        }
    }

    /// A score in digits.
    pub(crate) fn score_in_digits(&mut self) -> Result<f64, Malformed> {
        let score = match self.byte()? {
            253 => f64::NAN,
            254 => f64::INFINITY,
            255 => f64::NEG_INFINITY,
            len => {
                let text =
                    std::str::from_utf8(self.take(usize::from(len))?).map_err(|_| Malformed)?;
                text.trim().parse().map_err(|_| Malformed)?
            }
        };
        finite_or_infinite(score)
    }

    pub(crate) fn score(&mut self) -> Result<f64, Malformed> {
        finite_or_infinite(f64::from_le_bytes(self.array()?))
    }
}

/// A score, which is a number.
pub(crate) fn finite_or_infinite(score: f64) -> Result<f64, Malformed> {
    if score.is_nan() { Err(Malformed) } else { Ok(score) }
}

/// Decompresses what LZF has compressed. Memory grows with what is written, never with what is announced.
fn unpack(packed: &[u8], len: usize) -> Result<Vec<u8>, Malformed> {
    let mut input = Reader::new(packed);
    let mut out: Vec<u8> = Vec::new();
    while !input.is_at_end() {
        let control = usize::from(input.byte()?);
        if control < 32 {
            out.extend_from_slice(input.take(control + 1)?);
        } else {
            let mut count = control >> 5;
            if count == 7 {
                count += usize::from(input.byte()?);
            }
            let back = (control & 0x1F) << 8 | usize::from(input.byte()?);
            let from = out.len().checked_sub(back + 1).ok_or(Malformed)?;
            // It may overlap with what it makes.
            for at in from..from + count + 2 {
                out.push(out[at]);
            }
        }
        if out.len() > len {
            return Err(Malformed);
        }
    }
    if out.len() == len { Ok(out) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_in_all_their_forms() {
        for (bytes, text) in [
            (b"\x03abc".as_slice(), Ok(b"abc".to_vec())),
            (b"\x40\x01x", Ok(b"x".to_vec())),
            (b"\x80\0\0\0\x01x", Ok(b"x".to_vec())),
            (b"\x81\0\0\0\0\0\0\0\x01x", Ok(b"x".to_vec())),
            (b"\xc0\xff", Ok(b"-1".to_vec())),
            (b"\xc1\x00\x01", Ok(b"256".to_vec())),
            (b"\xc2\x00\x00\x01\x00", Ok(b"65536".to_vec())),
            // Ten times `a`: one, and nine more from one place before.
            (b"\xc3\x05\x0a\x00a\xe0\x00\x00", Ok(b"aaaaaaaaaa".to_vec())),
            (b"\xc3\x05\x0b\x00a\xe0\x00\x00", Err(Malformed)),
            (b"\xc3\x02\x05\x20\x05", Err(Malformed)),
            (b"\x81\xff\xff\xff\xff\xff\xff\xff\xff", Err(Malformed)),
            (b"\xc4", Err(Malformed)),
            (b"\x82", Err(Malformed)),
            (b"", Err(Malformed)),
        ] {
            assert_eq!(Reader::new(bytes).string(), text, "{bytes:?}");
        }
    }
}
