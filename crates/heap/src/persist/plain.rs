//! Types that are stored as they are.

use super::{Persist, TypeName};
use crate::Ptr;
use bytemuck::{Pod, Zeroable};

macro_rules! numbers {
    ($($of:ty)*) => {
        $(impl Persist for $of {
            type Bytes = [u8; size_of::<$of>()];
            const TYPE_NAME: TypeName = TypeName::new(stringify!($of));

            #[inline(always)]
            fn to_stored(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            #[inline(always)]
            fn from_stored(bytes: &Self::Bytes) -> Option<Self> {
                Some(<$of>::from_le_bytes(*bytes))
            }
        })*
    };
}

numbers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

impl Persist for () {
    type Bytes = [u8; 0];
    const TYPE_NAME: TypeName = TypeName::new("()");

    fn to_stored(self) -> [u8; 0] {
        []
    }

    fn from_stored(_: &[u8; 0]) -> Option<()> {
        Some(())
    }
}

impl Persist for bool {
    type Bytes = [u8; 1];
    const TYPE_NAME: TypeName = TypeName::new("bool");

    #[inline]
    fn to_stored(self) -> [u8; 1] {
        [u8::from(self)]
    }

    #[inline]
    fn from_stored(bytes: &[u8; 1]) -> Option<bool> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl Persist for char {
    type Bytes = [u8; 4];
    const TYPE_NAME: TypeName = TypeName::new("char");

    #[inline]
    fn to_stored(self) -> [u8; 4] {
        u32::from(self).to_le_bytes()
    }

    #[inline]
    fn from_stored(bytes: &[u8; 4]) -> Option<char> {
        char::from_u32(u32::from_le_bytes(*bytes))
    }
}

impl<T: Persist> Persist for Ptr<T> {
    type Bytes = [u8; 8];
    const TYPE_NAME: TypeName = TypeName::generic("Ptr", &[T::TYPE_NAME]);

    #[inline(always)]
    fn to_stored(self) -> [u8; 8] {
        self.at().to_le_bytes()
    }

    #[inline(always)]
    fn from_stored(bytes: &[u8; 8]) -> Option<Self> {
        Some(Ptr::new(u64::from_le_bytes(*bytes)))
    }
}

impl<T: Persist, const N: usize> Persist for [T; N] {
    type Bytes = [T::Bytes; N];
    const TYPE_NAME: TypeName = TypeName::array(&[T::TYPE_NAME], N);

    #[inline]
    fn to_stored(self) -> Self::Bytes {
        let mut bytes = Self::Bytes::zeroed();
        for (to, item) in bytes.iter_mut().zip(self) {
            *to = item.to_stored();
        }
        bytes
    }

    #[inline]
    fn from_stored(bytes: &Self::Bytes) -> Option<Self> {
        // The first item is a placeholder for the others until each of them is read.
        let Some(first) = bytes.first() else {
            return Some([(); N].map(|()| unreachable!("an array without items")));
        };
        let mut items = [T::from_stored(first)?; N];
        for (item, bytes) in items.iter_mut().zip(bytes).skip(1) {
            *item = T::from_stored(bytes)?;
        }
        Some(items)
    }
}

/// A byte that says whether there is a value, and the value's bytes.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, packed)]
pub struct Maybe<B>(u8, B);

impl<T: Persist> Persist for Option<T> {
    type Bytes = Maybe<T::Bytes>;
    const TYPE_NAME: TypeName = TypeName::generic("Option", &[T::TYPE_NAME]);

    #[inline]
    fn to_stored(self) -> Self::Bytes {
        self.map_or_else(Maybe::zeroed, |value| Maybe(1, value.to_stored()))
    }

    #[inline]
    fn from_stored(bytes: &Self::Bytes) -> Option<Self> {
        let Maybe(tag, value) = *bytes;
        match tag {
            0 => Some(None),
            1 => T::from_stored(&value).map(Some),
            _ => None,
        }
    }
}

macro_rules! tuples {
    ($($name:ident($($field:ident)*);)*) => {
        $(
            /// A tuple's bytes.
            #[derive(Clone, Copy, Pod, Zeroable)]
            #[repr(C, packed)]
            pub struct $name<$($field),*>($($field),*);

            impl<$($field: Persist),*> Persist for ($($field,)*) {
                type Bytes = $name<$($field::Bytes),*>;
                const TYPE_NAME: TypeName = TypeName::generic("", &[$($field::TYPE_NAME),*]);

                #[inline]
                #[allow(non_snake_case)]
                fn to_stored(self) -> Self::Bytes {
                    let ($($field,)*) = self;
                    $name($($field.to_stored()),*)
                }

                #[inline]
                #[allow(non_snake_case)]
                fn from_stored(bytes: &Self::Bytes) -> Option<Self> {
                    let $name($($field),*) = *bytes;
                    Some(($($field::from_stored(&$field)?,)*))
                }
            }
        )*
    };
}

tuples! {
    Two(A B);
    Three(A B C);
    Four(A B C D);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    #[track_caller]
    fn is_kept<T: Persist + PartialEq + Debug>(value: T, bytes: &[u8]) {
        let stored = value.to_stored();
        assert_eq!(bytemuck::bytes_of(&stored), bytes);
        assert_eq!(T::from_stored(&stored), Some(value));
    }

    #[test]
    fn values_take_their_bytes_and_no_more() {
        is_kept(0x0102_u16, &[2, 1]);
        is_kept(-2_i32, &[0xFE, 0xFF, 0xFF, 0xFF]);
        is_kept(1.0_f32, &[0, 0, 0x80, 0x3F]);
        is_kept([0x0102_u16, 3], &[2, 1, 3, 0]);
        is_kept([0_u64; 0], &[]);
        is_kept(Some(7_u8), &[1, 7]);
        is_kept(None::<u32>, &[0; 5]);
        is_kept((1_u8, 2_u16, [3_u8; 2]), &[1, 2, 0, 3, 3]);
        is_kept((true, 'a'), &[1, b'a', 0, 0, 0]);
        is_kept((), &[]);
        is_kept(Ptr::<u64>::new(0x1234), &[0x34, 0x12, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn bytes_that_are_no_value_are_noticed() {
        assert_eq!(bool::from_stored(&[2]), None);
        assert_eq!(char::from_stored(&0xD800_u32.to_le_bytes()), None);
        assert_eq!(<[bool; 3]>::from_stored(&[[0], [1], [3]]), None);
        assert_eq!(<[bool; 3]>::from_stored(&[[3], [1], [0]]), None);
        assert_eq!(Option::<u8>::from_stored(&Maybe(2, [0])), None);
        assert_eq!(<(u8, bool)>::from_stored(&Two([0], [9])), None);
    }
}
