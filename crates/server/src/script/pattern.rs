//! Patterns of Lua 5.1, as `lstrlib.c` matches them, on bytes.
//!
//! Lua's own matcher neither ends a recursion that is too deep nor asks how long it has run. Here both have a limit:
//! items of a pattern may be nested [`DEPTH_MAX`] deep, as from Lua 5.2 on, and each step is counted
//! ([`State::spend`]), so that a script whose time is over ends inside of a match.

use super::interpreter::State;
use super::library::{Outcome, wrong};
use crate::protocol::number;

/// Items that a match may have under way.
const DEPTH_MAX: usize = 200;
/// Captures that a pattern may have.
const CAPTURES_MAX: usize = 32;

const SPECIALS: &[u8] = b"^$*+?.([%-";
const ESCAPE: u8 = b'%';

/// The length of a capture.
#[derive(Clone, Copy)]
enum Extent {
    Open,
    /// It is a position.
    Position,
    Bytes(usize),
}

#[derive(Clone, Copy)]
struct Capture {
    start: usize,
    extent: Extent,
}

/// What a capture is for a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Captured<'a> {
    Bytes(&'a [u8]),
    /// A place in the subject, the first being 1.
    Position(usize),
}

/// A pattern that is matched with a subject.
pub(super) struct Matcher<'a> {
    state: &'a State,
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: [Capture; CAPTURES_MAX],
    level: usize,
    depth: usize,
}

/// Whether a pattern matches only itself.
pub(super) fn is_plain(pattern: &[u8]) -> bool {
    !number::until_nul(pattern).iter().any(|byte| SPECIALS.contains(byte))
}

/// The first place of `text` in `subject`, from `from` on.
pub(super) fn find_plain(
    state: &State,
    subject: &[u8],
    text: &[u8],
    from: usize,
) -> Outcome<Option<usize>> {
    let Some((&first, rest)) = text.split_first() else { return Ok(Some(from)) };
    let Some(last) = subject.len().checked_sub(text.len()) else { return Ok(None) };
    let mut at = from;
    while at <= last {
        let Some(skipped) = subject[at..=last].iter().position(|&byte| byte == first) else {
            break;
        };
        at += skipped;
        state.spend(1 + text.len() / 64)?;
        if subject[at + 1..].starts_with(rest) {
            return Ok(Some(at));
        }
        at += 1;
    }
    Ok(None)
}

fn is_in_class(byte: u8, class: u8) -> bool {
    let is_member = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_member == class.is_ascii_lowercase()
}

impl<'a> Matcher<'a> {
    /// A matcher, and whether the pattern matches only where the search begins.
    pub(super) fn anchored(
        state: &'a State,
        subject: &'a [u8],
        pattern: &'a [u8],
    ) -> (Matcher<'a>, bool) {
        match pattern.strip_prefix(b"^") {
            Some(rest) => (Matcher::new(state, subject, rest), true),
            None => (Matcher::new(state, subject, pattern), false),
        }
    }

    /// A matcher of a pattern that has no anchor.
    pub(super) fn new(state: &'a State, subject: &'a [u8], pattern: &'a [u8]) -> Matcher<'a> {
        let none = Capture { start: 0, extent: Extent::Open };
        // A pattern ends with its first NUL, as C's strings do.
        let pattern = number::until_nul(pattern);
        let captures = [none; CAPTURES_MAX];
        Matcher { state, subject, pattern, captures, level: 0, depth: 0 }
    }

    /// The end of a match that begins at `at`.
    pub(super) fn match_at(&mut self, at: usize) -> Outcome<Option<usize>> {
        (self.level, self.depth) = (0, 0);
        self.matches(at, 0)
    }

    /// The first match at `at` or after it: its start and its end.
    pub(super) fn search(&mut self, at: usize, anchored: bool) -> Outcome<Option<(usize, usize)>> {
        for start in at..=self.subject.len() {
            if let Some(end) = self.match_at(start)? {
                return Ok(Some((start, end)));
            }
            if anchored {
                break;
            }
        }
        Ok(None)
    }

    /// How many captures the last match has. If there are none, the whole match may count as one.
    pub(super) fn count(&self, whole: bool) -> usize {
        if self.level == 0 && whole { 1 } else { self.level }
    }

    /// All of a match.
    pub(super) fn whole(&self, start: usize, end: usize) -> Captured<'a> {
        Captured::Bytes(&self.subject[start..end])
    }

    /// A capture of the last match, which is from `start` to `end`.
    pub(super) fn capture(&self, index: usize, start: usize, end: usize) -> Outcome<Captured<'a>> {
        if index >= self.level {
            return match index {
                0 => Ok(self.whole(start, end)),
                _ => wrong("invalid capture index"),
            };
        }
        let Capture { start, extent } = self.captures[index];
        match extent {
            Extent::Open => wrong("unfinished capture"),
            Extent::Position => Ok(Captured::Position(start + 1)),
            Extent::Bytes(len) => Ok(Captured::Bytes(&self.subject[start..start + len])),
        }
    }

    /// A byte of the pattern, which ends with a NUL.
    fn item(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    /// The end of the single-byte item that begins at `at`.
    fn item_end(&self, at: usize) -> Outcome<usize> {
        match self.item(at) {
            ESCAPE if self.item(at + 1) == 0 => wrong("malformed pattern (ends with '%')"),
            ESCAPE => Ok(at + 2),
            b'[' => {
                let mut end = at + 1;
                if self.item(end) == b'^' {
                    end += 1;
                }
                loop {
                    if self.item(end) == 0 {
                        return wrong("malformed pattern (missing ']')");
                    }
                    end += 1;
                    if self.item(end - 1) == ESCAPE && self.item(end) != 0 {
                        end += 1;
                    }
                    if self.item(end) == b']' {
                        self.state.spend((end - at) / 16)?;
                        return Ok(end + 1);
                    }
                }
            }
            _ => Ok(at + 1),
        }
    }

    /// Whether a byte is in the set that begins at `at`, with `[`, and whose `]` is at `end`.
    fn is_in_set(&self, byte: u8, at: usize, end: usize) -> bool {
        let is_negated = self.item(at + 1) == b'^';
        let mut at = at + 1 + usize::from(is_negated);
        while at < end {
            let first = self.item(at);
            let is_found = if first == ESCAPE {
                at += 1;
                is_in_class(byte, self.item(at))
            } else if self.item(at + 1) == b'-' && at + 2 < end {
                at += 2;
                (first..=self.item(at)).contains(&byte)
            } else {
                first == byte
            };
            if is_found {
                return !is_negated;
            }
            at += 1;
        }
        is_negated
    }

    /// Whether the subject has at `at` a byte that the item from `item` to `end` matches.
    fn is_single(&self, at: usize, item: usize, end: usize) -> Outcome<bool> {
        self.state.spend(1 + (end - item) / 16)?;
        let Some(&byte) = self.subject.get(at) else { return Ok(false) };
        Ok(match self.item(item) {
            b'.' => true,
            ESCAPE => is_in_class(byte, self.item(item + 1)),
            b'[' => self.is_in_set(byte, item, end - 1),
            other => other == byte,
        })
    }

    /// The end of a match of the pattern from `item` on with the subject from `at` on.
    fn matches(&mut self, at: usize, item: usize) -> Outcome<Option<usize>> {
        if self.depth == DEPTH_MAX {
            return wrong("pattern too complex");
        }
        self.depth += 1;
        let end = self.matches_here(at, item);
        self.depth -= 1;
        end
    }

    fn matches_here(&mut self, mut at: usize, mut item: usize) -> Outcome<Option<usize>> {
        loop {
            self.state.spend(1)?;
            let next = self.item(item + 1);
            match self.item(item) {
                0 => return Ok(Some(at)),
                b'(' if next == b')' => return self.open_capture(at, item + 2, Extent::Position),
                b'(' => return self.open_capture(at, item + 1, Extent::Open),
                b')' => return self.close_capture(at, item + 1),
                b'$' if next == 0 => return Ok((at == self.subject.len()).then_some(at)),
                ESCAPE if next == b'b' => match self.balanced(at, item + 2)? {
                    Some(end) => (at, item) = (end, item + 4),
                    None => return Ok(None),
                },
                ESCAPE if next == b'f' => match self.frontier(at, item + 2)? {
                    Some(end) => item = end,
                    None => return Ok(None),
                },
                ESCAPE if next.is_ascii_digit() => match self.same_as_capture(at, next)? {
                    Some(end) => (at, item) = (end, item + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.item_end(item)?;
                    let is_matched = self.is_single(at, item, end)?;
                    match self.item(end) {
                        b'?' => {
                            if is_matched && let Some(end) = self.matches(at + 1, end + 1)? {
                                return Ok(Some(end));
                            }
                            item = end + 1;
                        }
                        b'*' => return self.longest(at, item, end),
                        b'+' if is_matched => return self.longest(at + 1, item, end),
                        b'-' => return self.shortest(at, item, end),
                        b'+' => return Ok(None),
                        _ if is_matched => (at, item) = (at + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn longest(&mut self, at: usize, item: usize, end: usize) -> Outcome<Option<usize>> {
        let mut count = 0;
        while self.is_single(at + count, item, end)? {
            count += 1;
        }
        for count in (0..=count).rev() {
            if let Some(end) = self.matches(at + count, end + 1)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn shortest(&mut self, mut at: usize, item: usize, end: usize) -> Outcome<Option<usize>> {
        loop {
            if let Some(end) = self.matches(at, end + 1)? {
                return Ok(Some(end));
            }
            if !self.is_single(at, item, end)? {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn open_capture(&mut self, at: usize, item: usize, extent: Extent) -> Outcome<Option<usize>> {
        if self.level == CAPTURES_MAX {
            return wrong("too many captures");
        }
        self.captures[self.level] = Capture { start: at, extent };
        self.level += 1;
        let end = self.matches(at, item)?;
        if end.is_none() {
            self.level -= 1;
        }
        Ok(end)
    }

    fn close_capture(&mut self, at: usize, item: usize) -> Outcome<Option<usize>> {
        let is_open = |capture: &Capture| matches!(capture.extent, Extent::Open);
        let Some(index) = self.captures[..self.level].iter().rposition(is_open) else {
            return wrong("invalid pattern capture");
        };
        self.captures[index].extent = Extent::Bytes(at - self.captures[index].start);
        let end = self.matches(at, item)?;
        if end.is_none() {
            self.captures[index].extent = Extent::Open;
        }
        Ok(end)
    }

    /// `%b`: its two bytes are at `item`.
    fn balanced(&self, at: usize, item: usize) -> Outcome<Option<usize>> {
        let (open, close) = (self.item(item), self.item(item + 1));
        if open == 0 || close == 0 {
            return wrong("unbalanced pattern");
        }
        if self.subject.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        for (index, &byte) in self.subject[at + 1..].iter().enumerate() {
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    self.state.spend(index / 16)?;
                    return Ok(Some(at + index + 2));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        self.state.spend((self.subject.len() - at) / 16)?;
        Ok(None)
    }

    /// `%f`: its set begins at `item`. Returns the set's end.
    fn frontier(&self, at: usize, item: usize) -> Outcome<Option<usize>> {
        if self.item(item) != b'[' {
            return wrong("missing '[' after '%f' in pattern");
        }
        let end = self.item_end(item)?;
        // Beyond both ends of the subject is a NUL.
        let byte = |at: Option<usize>| at.and_then(|at| self.subject.get(at)).copied().unwrap_or(0);
        let is_frontier = !self.is_in_set(byte(at.checked_sub(1)), item, end - 1)
            && self.is_in_set(byte(Some(at)), item, end - 1);
        Ok(is_frontier.then_some(end))
    }

    /// `%1` to `%9`.
    fn same_as_capture(&self, at: usize, digit: u8) -> Outcome<Option<usize>> {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let capture = self.captures[..self.level].get(index);
        match capture.map(|capture| (capture.start, capture.extent)) {
            None | Some((_, Extent::Open)) => wrong("invalid capture index"),
            Some((_, Extent::Position)) => Ok(None),
            Some((start, Extent::Bytes(len))) => {
                self.state.spend(len / 64)?;
                let text = &self.subject[start..start + len];
                Ok(self.subject[at..].starts_with(text).then_some(at + len))
            }
        }
    }
}
