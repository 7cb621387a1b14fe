//! Splits an inline request into arguments: words, `"quoted \x20 strings"` and `'raw ones'`.

use super::args::Span;
use std::ops::Range;

/// Splits `buffer[line]` and appends the arguments' spans. The characters that quotes and escapes stand for
/// is written over the line itself, which is never shorter. False if quotes do not match.
pub(crate) fn split(buffer: &mut [u8], line: Range<usize>, spans: &mut Vec<Span>) -> bool {
    let mut splitter = Splitter { buffer, read: line.start, end: line.end, write: line.start };
    loop {
        while splitter.peek().is_some_and(is_space) {
            splitter.read += 1;
        }
        if splitter.peek().is_none() {
            return true;
        }
        let start = splitter.write;
        if !splitter.argument() {
            return false;
        }
        spans.push(Span::new(start, splitter.write - start));
    }
}

/// C's isspace, in the C locale.
fn is_space(byte: u8) -> bool {
    byte == b' ' || (0x09..=0x0d).contains(&byte)
}

/// Two fingers in one buffer; the writing one never passes the reading one.
struct Splitter<'a> {
    buffer: &'a mut [u8],
    read: usize,
    end: usize,
    write: usize,
}

impl Splitter<'_> {
    fn peek(&self) -> Option<u8> {
        (self.read < self.end).then(|| self.buffer[self.read])
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.read += 1;
        Some(byte)
    }

    fn put(&mut self, byte: u8) {
        self.buffer[self.write] = byte;
        self.write += 1;
    }

    fn argument(&mut self) -> bool {
        while let Some(byte) = self.take() {
            match byte {
                b'"' => return self.quoted(),
                b'\'' => return self.raw(),
                byte if is_space(byte) => return true,
                byte => self.put(byte),
            }
        }
        true
    }

    /// The rest of a double-quoted argument.
    fn quoted(&mut self) -> bool {
        loop {
            match self.take() {
                None => return false,
                Some(b'"') => return self.closed(),
                Some(b'\\') => {
                    let Some(byte) = self.escape() else { return false };
                    self.put(byte);
                }
                Some(byte) => self.put(byte),
            }
        }
    }

    /// The rest of a single-quoted argument.
    fn raw(&mut self) -> bool {
        loop {
            match self.take() {
                None => return false,
                Some(b'\'') => return self.closed(),
                Some(b'\\') if self.peek() == Some(b'\'') => {
                    self.read += 1;
                    self.put(b'\'');
                }
                Some(byte) => self.put(byte),
            }
        }
    }

    /// A closing quote must end the argument.
    fn closed(&self) -> bool {
        self.peek().is_none_or(is_space)
    }

    fn escape(&mut self) -> Option<u8> {
        Some(match self.take()? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 0x08,
            b'a' => 0x07,
            b'x' => self.hex().unwrap_or(b'x'),
            other => other,
        })
    }

    fn hex(&mut self) -> Option<u8> {
        let digits = self.buffer[..self.end].get(self.read..self.read + 2)?;
        let value = |digit: u8| char::from(digit).to_digit(16);
        let byte = value(digits[0])? * 16 + value(digits[1])?;
        self.read += 2;
        u8::try_from(byte).ok()
    }
}
