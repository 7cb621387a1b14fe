//! Patterns of KEYS, SCAN and CONFIG GET: `*`, `?`, `[a-z]`, `[^a]` and `\` escapes.

/// Whether `text` matches `pattern`. Takes time of at most their lengths' product: after a
/// mismatch only the last `*` is widened.
///
/// The empty text is matched by `*` alone, not by `**`: as in Redis, whose commands know `*` and
/// whose patterns need a byte to begin with.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty() || pattern == b"*";
    }
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        if t == text.len() {
            if p == pattern.len() {
                return true;
            }
            return false;
        }
        match one(&pattern[p..], text[t]) {
            Some(width) => {
                p += width;
                t += 1;
            }
            None => match &mut star {
                Some((after, from)) => {
                    *from += 1;
                    (p, t) = (*after, *from);
                }
                None => return false,
            },
        }
    }
}

/// If the first element of `pattern` matches `byte`, the element's width.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern.first()? {
        b'?' => Some(1),
        b'[' => {
            let (hit, width) = class(pattern, byte);
            hit.then_some(width)
        }
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        &literal => (literal == byte).then_some(1),
    }
}

/// Whether the bracket expression that `pattern` begins with matches, and its width. One that
/// is never closed ends with the pattern.
fn class(pattern: &[u8], byte: u8) -> (bool, usize) {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = if negated { 2 } else { 1 };
    let mut hit = false;
    loop {
        match pattern.get(at) {
            None => return (hit != negated, at),
            Some(b']') => return (hit != negated, at + 1),
            Some(b'\\') if at + 1 < pattern.len() => {
                hit |= pattern[at + 1] == byte;
                at += 2;
            }
            Some(&low) if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() => {
                let high = pattern[at + 2];
                hit |= (low.min(high)..=low.max(high)).contains(&byte);
                at += 3;
            }
            Some(&literal) => {
                hit |= literal == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("**", "", false),
            ("***", "a", true),
            ("a**", "a", true),
            ("*?*", "", false),
            ("*", "anything", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeello", true),
            ("h[ae]llo", "hello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            (r"h\*llo", "h*llo", true),
            (r"h\*llo", "hello", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("abc*", "abc", true),
            ("abc", "abcd", false),
            ("", "", true),
            ("", "a", false),
            ("[a", "a", true),
            (r"[\]]", "]", true),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_end() {
        let pattern = b"a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b";
        assert!(!matches(pattern, &[b'a'; 4096]));
    }
}
