//! The module's arguments: `loadmodule libperdura_module.so pool /var/lib/redis/7000.pool size 4G`.

use std::path::PathBuf;

/// How a node's pool is found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) pool: PathBuf,
    /// Bytes that a new pool may grow to.
    pub(crate) size: u64,
    /// Whether a pool of another node is taken over.
    pub(crate) adopt: bool,
    /// Whether a pool with a part of a master's copy is served.
    pub(crate) partial: bool,
}

/// Bytes of a new pool, if nothing is said.
const SIZE: u64 = 1 << 30;

impl Settings {
    /// Reads the arguments. An error is a sentence for the operator.
    pub(crate) fn parse(args: &[&[u8]]) -> Result<Self, String> {
        let (mut pool, mut size, mut adopt, mut partial) = (None, SIZE, false, false);
        let mut args = args.iter().map(|arg| String::from_utf8_lossy(arg));
        while let Some(name) = args.next() {
            match name.to_ascii_lowercase().as_str() {
                "adopt" => adopt = true,
                "partial" => partial = true,
                "pool" => pool = args.next().map(|path| PathBuf::from(path.as_ref())),
                "size" => {
                    let text = args.next().unwrap_or_default();
                    size = bytes(&text)
                        .ok_or_else(|| format!("size '{text}' is no number of bytes: 512M, 4G"))?;
                }
                other => {
                    return Err(format!(
                        "no argument '{other}': there are pool PATH, size BYTES, adopt, partial"
                    ));
                }
            }
        }
        let pool = pool.ok_or("the argument 'pool PATH' is missing: loadmodule FILE pool PATH")?;
        Ok(Settings { pool, size, adopt, partial })
    }
}

fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        let parse = |args: &[&str]| {
            Settings::parse(&args.iter().map(|arg| arg.as_bytes()).collect::<Vec<_>>())
        };
        let settings = parse(&["pool", "a.pool", "SIZE", "64m", "adopt"]).unwrap();
        let wanted =
            Settings { pool: "a.pool".into(), size: 64 << 20, adopt: true, partial: false };
        assert_eq!(settings, wanted);
        assert!(parse(&["partial", "pool", "a"]).unwrap().partial);
        assert_eq!(parse(&["pool", "a"]).unwrap().size, SIZE);
        for (args, part) in [
            (&[][..], "is missing"),
            (&["pool"], "is missing"),
            (&["pool", "a", "size", "much"], "'much'"),
            (&["pool", "a", "size", "99999999999G"], "no number"),
            (&["pool", "a", "size"], "no number"),
            (&["file", "a"], "no argument 'file'"),
        ] {
            let error = parse(args).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
