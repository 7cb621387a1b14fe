//! Lua's patterns. Lua's own functions recurse as deep as a pattern is long, and may take for ever: here a script that is
//! matching can be ended, and patterns that nest too deep are errors, as in later versions of Lua.

use super::interpreter::State;
use super::library::{Arguments, Native, Outcome, Wrong, wrong};
use mlua::{Lua, MultiValue, Value};

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("find", |lua, state, args| search(lua, state, &args, "find")),
    ("match", |lua, state, args| search(lua, state, &args, "match")),
    // For `gmatch` and `gsub`: both places, and then what is captured, or all.
    ("next", |lua, state, args| search(lua, state, &args, "next")),
    ("substitute", substitute),
];

/// Captures of a pattern.
const CAPTURES_MAX: usize = 32;
/// Parts of a pattern that may be tried in one another.
const DEPTH_MAX: usize = 200;
/// Steps from one look at the script's time to the next.
const STRIDE: u32 = 1 << 16;

#[derive(Clone, Copy)]
enum Capture {
    /// It has begun.
    Open(usize),
    Part(usize, usize),
    Position(usize),
}

struct Matcher<'a> {
    state: &'a State,
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    depth: usize,
    steps: u32,
}

type Matched = Outcome<Option<usize>>;

impl<'a> Matcher<'a> {
    fn new(state: &'a State, text: &'a [u8], pattern: &'a [u8]) -> Self {
        Matcher { state, text, pattern, captures: Vec::new(), depth: 0, steps: 0 }
    }

    fn step(&mut self) -> Outcome<()> {
        self.steps += 1;
        match self.steps % STRIDE {
            0 => self.state.look().map(drop).map_err(Wrong::Lua),
            _ => Ok(()),
        }
    }

    /// The first match from a place on: where it begins and ends. With `^` it is at that place.
    fn find(&mut self, from: usize) -> Outcome<Option<(usize, usize)>> {
        let anchored = self.pattern.first() == Some(&b'^');
        for start in from..=self.text.len() {
            self.captures.clear();
            self.step()?;
            if let Some(end) = self.matches(start, usize::from(anchored))? {
                return Ok(Some((start, end)));
            }
            if anchored {
                break;
            }
        }
        Ok(None)
    }

    /// Matches from these places of text and pattern on. Returns where the match ends.
    fn matches(&mut self, s: usize, p: usize) -> Matched {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return wrong("pattern too complex");
        }
        let matched = self.matches_here(s, p);
        self.depth -= 1;
        matched
    }

    fn matches_here(&mut self, mut s: usize, mut p: usize) -> Matched {
        loop {
            self.step()?;
            let Some(&byte) = self.pattern.get(p) else { return Ok(Some(s)) };
            let next = self.pattern.get(p + 1).copied();
            match (byte, next) {
                (b'(', Some(b')')) => return self.capture(Capture::Position(s), s, p + 2),
                (b'(', _) => return self.capture(Capture::Open(s), s, p + 1),
                (b')', _) => return self.end_capture(s, p + 1),
                (b'$', None) => return Ok((s == self.text.len()).then_some(s)),
                (b'%', Some(b'b')) => match self.balance(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    p += 2;
                    if self.pattern.get(p) != Some(&b'[') {
                        return wrong("missing '[' after '%f' in pattern");
                    }
                    let end = self.class_end(p)?;
                    let before = if s == 0 { 0 } else { self.text[s - 1] };
                    let here = self.text.get(s).copied().unwrap_or(0);
                    if self.in_set(before, p, end - 1) || !self.in_set(here, p, end - 1) {
                        return Ok(None);
                    }
                    p = end;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => match self.repeats(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(p)?;
                    let fits = self.fits(s, p, end);
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if fits && let Some(end) = self.matches(s + 1, end + 1)? {
                                return Ok(Some(end));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.expand(s, p, end),
                        Some(b'+') if fits => return self.expand(s + 1, p, end),
                        Some(b'+') => return Ok(None),
                        Some(b'-') => return self.expand_least(s, p, end),
                        _ if fits => (s, p) = (s + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// As many as possible.
    fn expand(&mut self, s: usize, p: usize, end: usize) -> Matched {
        let mut count = 0;
        while self.fits(s + count, p, end) {
            self.step()?;
            count += 1;
        }
        loop {
            if let Some(matched) = self.matches(s + count, end + 1)? {
                return Ok(Some(matched));
            }
            match count {
                0 => return Ok(None),
                _ => count -= 1,
            }
        }
    }

    /// As few as possible.
    fn expand_least(&mut self, mut s: usize, p: usize, end: usize) -> Matched {
        loop {
            if let Some(matched) = self.matches(s, end + 1)? {
                return Ok(Some(matched));
            }
            if !self.fits(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn capture(&mut self, capture: Capture, s: usize, p: usize) -> Matched {
        if self.captures.len() >= CAPTURES_MAX {
            return wrong("too many captures");
        }
        let level = self.captures.len();
        self.captures.push(capture);
        let matched = self.matches(s, p)?;
        if matched.is_none() {
            self.captures.truncate(level);
        }
        Ok(matched)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> Matched {
        let open = self.captures.iter().rposition(|one| matches!(one, Capture::Open(_)));
        let Some(level) = open else { return wrong("invalid pattern capture") };
        let before = self.captures[level];
        if let Capture::Open(start) = before {
            self.captures[level] = Capture::Part(start, s);
        }
        let matched = self.matches(s, p)?;
        if matched.is_none() {
            self.captures[level] = before;
        }
        Ok(matched)
    }

    /// The end of what a capture has matched before, if it is here once more.
    fn repeats(&self, s: usize, digit: u8) -> Matched {
        let level = usize::from(digit).checked_sub(usize::from(b'1'));
        let Some(&Capture::Part(start, end)) = level.and_then(|level| self.captures.get(level))
        else {
            return wrong("invalid capture index");
        };
        let part = &self.text[start..end];
        Ok(self.text[s..].starts_with(part).then_some(s + part.len()))
    }

    /// The end of a balanced part, as `%b` has it.
    fn balance(&mut self, s: usize, p: usize) -> Matched {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return wrong("unbalanced pattern");
        };
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.text.len() {
            self.step()?;
            if self.text[at] == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if self.text[at] == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// Where the class at a place of the pattern ends.
    fn class_end(&self, p: usize) -> Outcome<usize> {
        match self.pattern[p] {
            b'%' if p + 1 < self.pattern.len() => Ok(p + 2),
            b'%' => wrong("malformed pattern (ends with '%')"),
            b'[' => {
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                loop {
                    match self.pattern.get(at) {
                        None => return wrong("malformed pattern (missing ']')"),
                        Some(b'%') => at += 2,
                        Some(_) => at += 1,
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether the byte at a place is of a class.
    fn fits(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(s) else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => is_of(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end - 1),
            other => other == byte,
        }
    }

    /// Whether a byte is in the set from `p` to `end`, where its brackets are.
    fn in_set(&self, byte: u8, p: usize, end: usize) -> bool {
        let negated = self.pattern.get(p + 1) == Some(&b'^');
        let mut at = p + 1 + usize::from(negated);
        while at < end {
            let rest = &self.pattern[at..end];
            let found = match rest {
                [b'%', class, ..] => {
                    at += 2;
                    is_of(byte, *class)
                }
                [low, b'-', high, ..] => {
                    at += 3;
                    (*low..=*high).contains(&byte)
                }
                [one, ..] => {
                    at += 1;
                    *one == byte
                }
                [] => false,
            };
            if found {
                return !negated;
            }
        }
        negated
    }

    /// The values of captures; of the whole match if there are none, and that is wanted.
    fn values(
        &self,
        lua: &Lua,
        (start, end): (usize, usize),
        whole: bool,
        to: &mut MultiValue,
    ) -> Outcome<()> {
        if self.captures.is_empty() && whole {
            to.push_back(Value::String(lua.create_string(&self.text[start..end])?));
        }
        for capture in &self.captures {
            to.push_back(match *capture {
                Capture::Open(_) => return wrong("unfinished capture"),
                Capture::Part(start, end) => {
                    Value::String(lua.create_string(&self.text[start..end])?)
                }
                Capture::Position(at) => Value::Number((at + 1) as f64),
            });
        }
        Ok(())
    }
}

impl Matcher<'_> {
    /// Appends what a match is replaced by.
    fn append(&self, out: &mut Vec<u8>, new: &[u8], (start, end): (usize, usize)) -> Outcome<()> {
        let mut bytes = new.iter();
        while let Some(&byte) = bytes.next() {
            if byte != b'%' {
                out.push(byte);
                continue;
            }
            let digit = match bytes.next() {
                Some(&digit @ b'0'..=b'9') => usize::from(digit - b'0'),
                Some(&other) => {
                    out.push(other);
                    continue;
                }
                // As the end of a string in C.
                None => {
                    out.push(0);
                    continue;
                }
            };
            match (digit, digit.checked_sub(1).and_then(|level| self.captures.get(level))) {
                (0, _) => out.extend_from_slice(&self.text[start..end]),
                (1, None) if self.captures.is_empty() => {
                    out.extend_from_slice(&self.text[start..end]);
                }
                (_, None) => return wrong("invalid capture index"),
                (_, Some(Capture::Open(_))) => return wrong("unfinished capture"),
                (_, Some(&Capture::Part(start, end))) => {
                    out.extend_from_slice(&self.text[start..end]);
                }
                (_, Some(&Capture::Position(at))) => {
                    out.extend_from_slice((at + 1).to_string().as_bytes());
                }
            }
        }
        Ok(())
    }
}

/// Whether a byte is of a class that a letter names, or is that character.
fn is_of(byte: u8, class: u8) -> bool {
    let found = match class.to_ascii_lowercase() {
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
    found != class.is_ascii_uppercase()
}

/// `string.find` and `string.match`, by name.
fn search(lua: &Lua, state: &State, args: &Arguments, name: &str) -> Outcome<MultiValue> {
    let shown = if name == "next" { "gsub" } else { name };
    let text = args.string(lua, 0, shown)?;
    let pattern = args.string(lua, 1, shown)?;
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let init = if args.get(2).is_nil() { 1.0 } else { args.number(2, shown)? } as i64;
    let len = text.len() as i64;
    let init = if init < 0 { (len + init).max(0) } else { (init - 1).max(0) };
    let none = || Ok([Value::Nil].into_iter().collect());
    if init > len {
        // Only `find` and `match` begin at the end then.
        if name == "next" {
            return none();
        }
    }
    let init = init.min(len) as usize;
    let mut results = MultiValue::new();
    let is_plain = !matches!(args.get(3), Value::Nil | Value::Boolean(false))
        || !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte));
    if name == "find" && is_plain {
        let Some(at) = plain(&text[init..], &pattern) else { return none() };
        results.push_back(Value::Number((init + at + 1) as f64));
        results.push_back(Value::Number((init + at + pattern.len()) as f64));
        return Ok(results);
    }
    let mut matcher = Matcher::new(state, &text, &pattern);
    let Some((start, end)) = matcher.find(init)? else { return none() };
    if name != "match" {
        results.push_back(Value::Number((start + 1) as f64));
        results.push_back(Value::Number(end as f64));
    }
    matcher.values(lua, (start, end), name != "find", &mut results)?;
    Ok(results)
}

/// The first place of one text in another.
fn plain(text: &[u8], part: &[u8]) -> Option<usize> {
    let Some(first) = part.first() else { return Some(0) };
    let mut from = 0;
    while from + part.len() <= text.len() {
        from += text[from..].iter().position(|byte| byte == first)?;
        if text[from..].starts_with(part) {
            return Some(from);
        }
        from += 1;
    }
    None
}

/// `string.gsub` with a string.
fn substitute(lua: &Lua, state: &State, args: Arguments) -> Outcome<MultiValue> {
    let text = args.string(lua, 0, "gsub")?;
    let pattern = args.string(lua, 1, "gsub")?;
    let new = args.string(lua, 2, "gsub")?;
    let (text, pattern, new) = (text.as_bytes(), pattern.as_bytes(), new.as_bytes());
    let most = if args.get(3).is_nil() { f64::INFINITY } else { args.number(3, "gsub")? };
    let anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(state, &text, &pattern);
    let (mut out, mut at, mut count) = (Vec::new(), 0, 0.0);
    while count < most {
        let Some((start, end)) = matcher.find(at)? else { break };
        count += 1.0;
        out.extend_from_slice(&text[at..start]);
        matcher.append(&mut out, &new, (start, end))?;
        at = end;
        if end == start {
            // An empty match: the next one begins behind the next byte.
            match text.get(start) {
                Some(&byte) => out.push(byte),
                None => {
                    at = text.len() + 1;
                    break;
                }
            }
            at = start + 1;
        }
        if anchored || at > text.len() {
            break;
        }
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    let result = Value::String(lua.create_string(out)?);
    Ok([result, Value::Number(count)].into_iter().collect())
}
