//! Names of types that are the same in every program and on every machine, so that a collection of some types is not
//! taken for one of other types of the same size.
//!
//! A collection's header keeps 24 bits of a hash of its types' names
//! ([`form`](crate::collections::form)): a mistake goes unnoticed once in 16 million times.

use crate::collections::mix;
use std::fmt;

/// A type's stable name.
///
/// ```
/// use perdura::Persist;
///
/// assert_eq!(<[Option<u64>; 3]>::TYPE_NAME.to_string(), "[Option<u64>; 3]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeName {
    text: &'static str,
    /// The types that it is made of.
    of: &'static [TypeName],
    /// The names of a record's fields, or of an enum's variants; empty for other types.
    names: &'static [&'static str],
    /// Elements of an array, or words.
    count: Option<usize>,
    /// An enum: `of` are its variants.
    choice: bool,
}

impl TypeName {
    /// The name of a program's own type: chosen by the program, and never changed while pools hold values of the type.
    /// A type whose layout has changed is another type, and needs another name: `"bank.Account.2"`.
    pub const fn new(text: &'static str) -> Self {
        TypeName::generic(text, &[])
    }

    /// The name of a generic type, with its parameters. A tuple is one with an empty identifier.
    pub const fn generic(text: &'static str, of: &'static [TypeName]) -> Self {
        TypeName { text, of, names: &[], count: None, choice: false }
    }

    /// The name of a struct or variant, with its fields' names and types.
    pub const fn record(
        text: &'static str,
        names: &'static [&'static str],
        of: &'static [TypeName],
    ) -> Self {
        TypeName { names, ..TypeName::generic(text, of) }
    }

    /// The name of an enum, with its variants' names and contents.
    pub const fn choice(
        text: &'static str,
        names: &'static [&'static str],
        of: &'static [TypeName],
    ) -> Self {
        TypeName { names, choice: true, ..TypeName::generic(text, of) }
    }

    /// The name of a type with a number as a parameter.
    pub(crate) const fn counted(text: &'static str, count: usize) -> Self {
        TypeName { count: Some(count), ..TypeName::new(text) }
    }

    pub(super) const fn array(of: &'static [TypeName], count: usize) -> Self {
        TypeName { count: Some(count), ..TypeName::generic("", of) }
    }

    /// Adds a hash of the name to another hash.
    pub(crate) const fn hash(&self, seed: u64) -> u64 {
        let mut hash = mix(hash_text(self.text, seed), self.of.len() as u64);
        let mut index = 0;
        while index < self.of.len() {
            hash = self.of[index].hash(hash);
            index += 1;
        }
        index = 0;
        while index < self.names.len() {
            hash = hash_text(self.names[index], hash);
            index += 1;
        }
        if self.choice {
            hash = mix(hash, 0);
        }
        match self.count {
            None => hash,
            Some(count) => mix(hash, count as u64 + 1),
        }
    }

    fn write_fields(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, of)) in self.names.iter().zip(self.of).enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            if self.choice {
                write!(f, "{of}")?;
            } else {
                write!(f, "{name}: {of}")?;
            }
        }
        Ok(())
    }
}

const fn hash_text(text: &str, seed: u64) -> u64 {
    let mut hash = mix(seed, text.len() as u64);
    let bytes = text.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        hash = mix(hash, bytes[index] as u64);
        index += 1;
    }
    hash
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.of, self.count) {
            ([element], Some(count)) => write!(f, "[{element}; {count}]"),
            (_, Some(count)) => write!(f, "{}<{count}>", self.text),
            ([], None) => f.write_str(self.text),
            (_, None) if !self.names.is_empty() => {
                let (open, close) = if self.choice { ("[", "]") } else { ("{ ", " }") };
                write!(f, "{} {open}", self.text)?;
                self.write_fields(f)?;
                f.write_str(close)
            }
            ([first, others @ ..], None) => {
                let (open, close) = if self.text.is_empty() { ("(", ")") } else { ("<", ">") };
                write!(f, "{}{open}{first}", self.text)?;
                others.iter().try_for_each(|other| write!(f, ", {other}"))?;
                f.write_str(close)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Persist, Ptr};

    /// Pools hold hashes of these names, which must therefore stay the same.
    #[test]
    fn names_stay_as_they_are() {
        let names = [
            (u64::TYPE_NAME, "u64", 0x74AC_A282_DC5C_36F6),
            (<[u64; 4]>::TYPE_NAME, "[u64; 4]", 0x2E4A_D3E7_B74D_5EF1),
            (<[[f32; 2]; 8]>::TYPE_NAME, "[[f32; 2]; 8]", 0xEC00_9485_E9F5_1FE8),
            (<Ptr<i64>>::TYPE_NAME, "Ptr<i64>", 0x7FFB_CB26_4D08_012B),
            (<()>::TYPE_NAME, "()", 0xB497_4FE5_BDBA_70C6),
        ];
        for (name, text, hash) in names {
            assert_eq!((name.to_string().as_str(), name.hash(0)), (text, hash));
        }
    }

    #[test]
    fn other_types_have_other_hashes() {
        let all = [
            u64::TYPE_NAME,
            i64::TYPE_NAME,
            f64::TYPE_NAME,
            <[u64; 1]>::TYPE_NAME,
            <[u64; 4]>::TYPE_NAME,
            <[f32; 8]>::TYPE_NAME,
            <[[u64; 2]; 2]>::TYPE_NAME,
            <Ptr<u64>>::TYPE_NAME,
            TypeName::new("Ptr"),
            TypeName::new("Ptr<u64>"),
        ];
        for (index, a) in all.iter().enumerate() {
            for b in &all[..index] {
                assert_ne!(a.hash(0), b.hash(0), "{a} and {b}");
                assert_ne!(b.hash(a.hash(0)), a.hash(b.hash(0)), "{a} and {b} the other way round");
            }
        }
    }
}
