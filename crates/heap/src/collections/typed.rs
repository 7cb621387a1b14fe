//! Names of types that are the same in every program and on every machine, so that a collection made of
//! some types is not taken for one of others of the same size.
//!
//! A collection's header keeps 24 bits of a hash of its types' names ([`form`](super::form)): enough to
//! notice a mistake, one in 16 million apart.

use super::form::mix;
use crate::Ptr;
use std::fmt;

/// A type's stable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeName {
    text: &'static str,
    /// What it is made of.
    of: &'static [TypeName],
    /// Elements of an array, or words.
    count: Option<usize>,
}

impl TypeName {
    /// That of a program's own type: of the program's choice, and never changed while pools hold values
    /// of the type. A type whose layout has changed is another one, and has another name:
    /// `"bank.Account.2"`.
    pub const fn new(text: &'static str) -> Self {
        TypeName { text, of: &[], count: None }
    }

    /// That of a generic type, with its parameters.
    pub const fn generic(text: &'static str, of: &'static [TypeName]) -> Self {
        TypeName { text, of, count: None }
    }

    /// That of a type with a number for a parameter.
    pub(super) const fn counted(text: &'static str, count: usize) -> Self {
        TypeName { text, of: &[], count: Some(count) }
    }

    const fn array(of: &'static [TypeName], count: usize) -> Self {
        TypeName { text: "", of, count: Some(count) }
    }

    /// A hash of the name, taken into another.
    pub(super) const fn hash(&self, seed: u64) -> u64 {
        let mut hash = mix(seed, self.text.len() as u64);
        let bytes = self.text.as_bytes();
        let mut index = 0;
        while index < bytes.len() {
            hash = mix(hash, bytes[index] as u64);
            index += 1;
        }
        hash = mix(hash, self.of.len() as u64);
        index = 0;
        while index < self.of.len() {
            hash = self.of[index].hash(hash);
            index += 1;
        }
        match self.count {
            None => hash,
            Some(count) => mix(hash, count as u64 + 1),
        }
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.of, self.count) {
            ([element], Some(count)) => write!(f, "[{element}; {count}]"),
            (_, Some(count)) => write!(f, "{}<{count}>", self.text),
            ([], None) => f.write_str(self.text),
            ([first, others @ ..], None) => {
                write!(f, "{}<{first}", self.text)?;
                others.iter().try_for_each(|other| write!(f, ", {other}"))?;
                f.write_str(">")
            }
        }
    }
}

/// A type that collections can hold, with a stable name. Integers, floats, arrays, [`Ptr`] and the items
/// of this crate have theirs; a program gives its own types one:
///
/// ```
/// use perdura::collections::{HashMap, TypeName, Typed};
/// use perdura::{Pod, Zeroable};
///
/// #[derive(Clone, Copy, Pod, Zeroable)]
/// #[repr(C)]
/// struct Account {
///     balance: i64,
///     opened: u64,
/// }
///
/// impl Typed for Account {
///     const TYPE: TypeName = TypeName::new("bank.Account");
/// }
///
/// type Accounts = HashMap<u64, Account>;
/// # fn create(tx: &mut dyn perdura::Tx) -> perdura::Result<Accounts> { Accounts::create(tx) }
/// # perdura::testing::TestHeap::new().run(&mut |tx| create(tx)).unwrap();
/// ```
///
/// A type without one is not taken:
///
/// ```compile_fail,E0599
/// use perdura::{Pod, Zeroable, collections::HashMap};
///
/// #[derive(Clone, Copy, Pod, Zeroable)]
/// #[repr(C)]
/// struct Account {
///     balance: i64,
/// }
/// # fn create(tx: &mut dyn perdura::Tx) -> perdura::Result<HashMap<u64, Account>> {
/// HashMap::<u64, Account>::create(tx)
/// # }
/// ```
pub trait Typed {
    /// The name.
    const TYPE: TypeName;
}

macro_rules! named {
    ($($of:ty)*) => {
        $(impl Typed for $of {
            const TYPE: TypeName = TypeName::new(stringify!($of));
        })*
    };
}

named!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

impl Typed for () {
    const TYPE: TypeName = TypeName::new("()");
}

impl<T: Typed, const N: usize> Typed for [T; N] {
    const TYPE: TypeName = TypeName::array(&[T::TYPE], N);
}

impl<T: Typed> Typed for Ptr<T> {
    const TYPE: TypeName = TypeName::generic("Ptr", &[T::TYPE]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pools hold hashes of these: they must stay as they are.
    #[test]
    fn names_stay_as_they_are() {
        let names = [
            (u64::TYPE, "u64", 0x74AC_A282_DC5C_36F6),
            (<[u64; 4]>::TYPE, "[u64; 4]", 0x2E4A_D3E7_B74D_5EF1),
            (<[[f32; 2]; 8]>::TYPE, "[[f32; 2]; 8]", 0xEC00_9485_E9F5_1FE8),
            (<Ptr<i64>>::TYPE, "Ptr<i64>", 0x7FFB_CB26_4D08_012B),
            (<()>::TYPE, "()", 0xB497_4FE5_BDBA_70C6),
        ];
        for (name, text, hash) in names {
            assert_eq!((name.to_string().as_str(), name.hash(0)), (text, hash));
        }
    }

    #[test]
    fn other_types_have_other_hashes() {
        let all = [
            u64::TYPE,
            i64::TYPE,
            f64::TYPE,
            <[u64; 1]>::TYPE,
            <[u64; 4]>::TYPE,
            <[f32; 8]>::TYPE,
            <[[u64; 2]; 2]>::TYPE,
            <Ptr<u64>>::TYPE,
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
