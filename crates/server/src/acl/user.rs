//! A user: the passwords, and what is permitted.

use super::rules::Wrong;
use super::selector::Selector;
use sha2::{Digest as _, Sha256};

/// The name of the user that every connection begins with.
pub(crate) const DEFAULT: &[u8] = b"default";

/// A password's hash, in hexadecimal digits.
pub(crate) type Hash = [u8; 64];

/// The hash of a password.
pub(crate) fn hash(password: &[u8]) -> Hash {
    let digest = Sha256::digest(password);
    std::array::from_fn(|at| super::digit(digest[at / 2] >> (4 * (1 - at % 2))))
}

/// A user. It is replaced when it is changed, never changed itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: Vec<u8>,
    pub(crate) is_on: bool,
    pub(crate) needs_no_password: bool,
    /// Whether payloads of RESTORE are checked. They are in any case: this is kept to be shown.
    checks_payloads: bool,
    pub(crate) passwords: Vec<Hash>,
    /// The root, and others.
    pub(crate) selectors: Vec<Selector>,
    /// Whether every request is permitted.
    is_unlimited: bool,
}

impl User {
    /// A user that may do nothing, or only use all channels.
    pub(crate) fn new(name: &[u8], all_channels: bool) -> Self {
        User {
            name: name.to_vec(),
            is_on: false,
            needs_no_password: false,
            checks_payloads: true,
            passwords: Vec::new(),
            selectors: vec![Selector::new(all_channels)],
            is_unlimited: false,
        }
    }

    /// The user that every connection begins with, as it is before any rule: everybody may do everything.
    pub(crate) fn anybody() -> Self {
        let mut user = User::new(DEFAULT, false);
        for rule in ["+@all", "~*", "&*", "on", "nopass"] {
            let applied = user.apply(rule.as_bytes(), false);
            debug_assert_eq!(applied, Ok(()));
        }
        user
    }

    pub(crate) fn is_unlimited(&self) -> bool {
        self.is_unlimited
    }

    pub(crate) fn root(&self) -> &Selector {
        &self.selectors[0]
    }

    /// Whether a connection has this user without giving a password.
    pub(crate) fn is_free(&self) -> bool {
        self.is_on && self.needs_no_password
    }

    /// Whether a password with this hash, or any, is the user's. It takes the same time wherever hashes differ.
    pub(crate) fn takes(&self, hash: &Hash) -> bool {
        let is_it = |own: &Hash| own.iter().zip(hash).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0;
        self.is_on && (self.needs_no_password || self.passwords.iter().any(is_it))
    }

    /// Adds one rule; new selectors permit all channels if `all_channels`.
    pub(crate) fn apply(&mut self, rule: &[u8], all_channels: bool) -> Result<(), Wrong> {
        let applied = self.apply_rule(rule, all_channels);
        self.is_unlimited = self.selectors.iter().any(Selector::is_unlimited);
        applied
    }

    fn apply_rule(&mut self, rule: &[u8], all_channels: bool) -> Result<(), Wrong> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"skip-sanitize-payload" => self.checks_payloads = false,
            b"sanitize-payload" => self.checks_payloads = true,
            b"nopass" => (self.needs_no_password, self.passwords) = (true, Vec::new()),
            b"resetpass" => (self.needs_no_password, self.passwords) = (false, Vec::new()),
            b"clearselectors" => self.selectors.truncate(1),
            b"reset" => {
                *self = User::new(&std::mem::take(&mut self.name), all_channels);
            }
            _ => match rule {
                [b'>', password @ ..] => self.add_password(hash(password)),
                [b'#', digits @ ..] => self.add_password(checked(digits)?),
                [b'<', password @ ..] => return self.remove_password(hash(password)),
                [b'!', digits @ ..] => return self.remove_password(checked(digits)?),
                [b'(', rules @ .., b')'] => {
                    let mut selector = Selector::new(all_channels);
                    let rules = rules.split(u8::is_ascii_whitespace);
                    rules.filter(|rule| !rule.is_empty()).try_for_each(|r| selector.apply(r))?;
                    self.selectors.push(selector);
                }
                _ => return self.selectors[0].apply(rule),
            },
        }
        Ok(())
    }

    fn add_password(&mut self, hash: Hash) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.needs_no_password = false;
    }

    fn remove_password(&mut self, hash: Hash) -> Result<(), Wrong> {
        let at = self.passwords.iter().position(|own| *own == hash);
        self.passwords.remove(at.ok_or(Wrong::NoSuchPassword)?);
        Ok(())
    }

    /// The flags that are set.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.needs_no_password {
            flags.push("nopass");
        }
        flags.push(match self.checks_payloads {
            true => "sanitize-payload",
            false => "skip-sanitize-payload",
        });
        flags
    }

    /// The user's line in an ACL file.
    pub(crate) fn describe(&self) -> Vec<u8> {
        let mut words = vec![b"user".to_vec(), self.name.clone()];
        words.extend(self.flags().into_iter().map(|flag| flag.as_bytes().to_vec()));
        words.extend(self.passwords.iter().map(|hash| [b"#", hash.as_slice()].concat()));
        words.push(self.root().describe());
        let selectors = self.selectors[1..].iter().map(Selector::describe);
        words.extend(selectors.map(|rules| [b"(", rules.as_slice(), b")"].concat()));
        words.join(&b' ')
    }
}

/// A hash as rules have it.
fn checked(digits: &[u8]) -> Result<Hash, Wrong> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    Hash::try_from(digits).ok().filter(|hash| hash.iter().all(is_digit)).ok_or(Wrong::NoHash)
}
