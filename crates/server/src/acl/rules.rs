//! Rules as they are given: their errors, and selectors whose rules are given apart.

use std::borrow::Cow;

/// Why a rule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Syntax,
    /// No such command or category.
    Unknown,
    KeysAfterAll,
    ChannelsAfterAll,
    NoSuchPassword,
    NoHash,
    /// A first argument of a subcommand.
    PartOfPart,
}

impl Wrong {
    /// As Redis says it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Wrong::Syntax => "Syntax error",
            Wrong::Unknown => "Unknown command or category name in ACL",
            Wrong::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does \
                 not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Wrong::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and \
                 does not have any effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Wrong::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            Wrong::NoHash => {
                "The password hash must be exactly 64 characters and contain only lowercase \
                 hexadecimal characters"
            }
            Wrong::PartOfPart => "Allowing first-arg of a subcommand is not supported",
        }
    }
}

/// Puts together selectors whose rules are several arguments: from one that begins with a parenthesis to one that ends
/// with it.
///
/// # Errors
/// The argument whose parenthesis is not closed.
pub(crate) fn merged<'a>(
    args: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<Cow<'a, [u8]>>, &'a [u8]> {
    let mut merged = Vec::new();
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for arg in args {
        let ends = arg.last() == Some(&b')');
        match &mut open {
            Some((_, rules)) => {
                rules.push(b' ');
                rules.extend_from_slice(arg);
                if ends && let Some((_, rules)) = open.take() {
                    merged.push(Cow::Owned(rules));
                }
            }
            None if arg.first() == Some(&b'(') && !ends => open = Some((arg, arg.to_vec())),
            None => merged.push(Cow::Borrowed(arg)),
        }
    }
    match open {
        Some((arg, _)) => Err(arg),
        None => Ok(merged),
    }
}
