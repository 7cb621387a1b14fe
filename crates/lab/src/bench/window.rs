//! `--window`: how many transactions of a thread may wait for their durability.

use crate::quantity::{self, show_count};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// At most this many, the running one included; or all, so that nothing is waited for before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window(usize);

impl Window {
    /// Each transaction is waited for.
    pub(crate) const CLOSED_LOOP: Window = Window(1);
    const ALL: Window = Window(usize::MAX);

    /// In transactions.
    pub(crate) fn transactions(self) -> usize {
        self.0
    }

    /// A clause that describes it, if it is not the default.
    pub(crate) fn remark(self) -> Option<String> {
        match self {
            Window::CLOSED_LOOP => None,
            Window::ALL => Some("all transactions unanswered until the end".to_owned()),
            Window(window) => {
                Some(format!("up to {} transactions unanswered in each", show_count(window as u64)))
            }
        }
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Window::ALL);
        }
        match quantity::count(text) {
            Ok(window) if window > 0 => Ok(Window(usize::try_from(window).unwrap_or(usize::MAX))),
            _ => Err(format!("'{text}' is no window: it is 1 or more transactions, or all")),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Window::ALL => f.write_str("all"),
            Window(window) => write!(f, "{window}"),
        }
    }
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Window::ALL => serializer.serialize_str("all"),
            Window(window) => serializer.serialize_u64(window as u64),
        }
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        quantity::deserialize(deserializer, str::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_back() {
        for text in ["1", "64", "all"] {
            assert_eq!(text.parse::<Window>().expect("a window").to_string(), text);
        }
        assert_eq!("64k".parse(), Ok(Window(64_000)));
        for wrong in ["0", "none", "-1", ""] {
            assert!(
                wrong.parse::<Window>().is_err_and(|error| error.contains("or all")),
                "{wrong}"
            );
        }
    }
}
