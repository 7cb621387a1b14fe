//! Functions that derived code calls, and pointers to fields.

use super::{Persist, TypeName};
use crate::Ptr;
use std::fmt;
use std::marker::PhantomData;

/// Bytes that a value of `T` takes.
pub const fn size<T: Persist>() -> usize {
    size_of::<T::Bytes>()
}

/// The largest of these sizes; 0 if there are none.
pub const fn largest(sizes: &[usize]) -> usize {
    let (mut most, mut index) = (0, 0);
    while index < sizes.len() {
        if sizes[index] > most {
            most = sizes[index];
        }
        index += 1;
    }
    most
}

/// A placeholder for a type in its own name.
#[derive(Clone, Copy)]
pub struct Itself;

impl Persist for Itself {
    type Bytes = [u8; 0];
    const TYPE_NAME: TypeName = TypeName::new("Self");

    fn to_stored(self) -> [u8; 0] {
        []
    }

    fn from_stored(_: &[u8; 0]) -> Option<Self> {
        Some(Itself)
    }
}

/// Writes fields one after the other.
pub struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    /// Writes to `bytes`, from the start.
    #[inline(always)]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Writer { rest: bytes }
    }

    /// Writes one.
    ///
    /// # Panics
    /// If there is no room left: derived code has reserved enough.
    #[inline(always)]
    pub fn put<T: Persist>(&mut self, value: T) {
        let (to, rest) = std::mem::take(&mut self.rest).split_at_mut(size::<T>());
        to.copy_from_slice(bytemuck::bytes_of(&value.to_stored()));
        self.rest = rest;
    }
}

/// Reads fields one after the other.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, from the start.
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Reads one; `None` if its bytes are no value of the type, or too few are left.
    #[inline(always)]
    pub fn take<T: Persist>(&mut self) -> Option<T> {
        let (from, rest) = self.rest.split_at_checked(size::<T>())?;
        self.rest = rest;
        T::from_stored(&bytemuck::pod_read_unaligned(from))
    }
}

/// A field `F` of a struct `S`: its offset in the struct. `#[persist(fields)]` makes them; see [`Persist`].
///
/// ```
/// use perdura::{Persist, Ptr};
///
/// #[derive(Clone, Copy, Persist)]
/// #[persist(fields)]
/// struct Point {
///     x: f32,
///     y: f32,
/// }
///
/// assert_eq!(Ptr::<Point>::new(0x1000).member(Point::Y).at(), 0x1004);
/// ```
pub struct Member<S, F> {
    offset: u64,
    of: PhantomData<fn() -> (S, F)>,
}

impl<S, F> Member<S, F> {
    /// The field that begins `offset` bytes after the struct's start.
    #[doc(hidden)]
    pub const fn at(offset: u64) -> Self {
        Member { offset, of: PhantomData }
    }

    /// Its offset in the struct.
    pub const fn offset(self) -> u64 {
        self.offset
    }
}

impl<S, F> Clone for Member<S, F> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S, F> Copy for Member<S, F> {}
impl<S, F> fmt::Debug for Member<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Member({})", self.offset)
    }
}

impl<S> Ptr<S> {
    /// The pointer to a field of the struct that this one points to.
    pub const fn member<F>(self, member: Member<S, F>) -> Ptr<F> {
        self.field(member.offset)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Persist, Ptr};

    #[derive(Clone, Copy, Debug, PartialEq, Persist)]
    struct Nothing;

    #[derive(Clone, Copy, Debug, PartialEq, Persist)]
    struct Price(u32, i16);

    #[derive(Clone, Copy, Debug, PartialEq, Persist)]
    enum Order {
        Market,
        Limit(Price),
        Iceberg { price: Price, shown: Option<u8> },
    }

    #[derive(Clone, Copy, Debug, PartialEq, Persist)]
    #[persist(fields)]
    struct Node {
        order: Order,
        next: Ptr<Node>,
        others: [Ptr<Self>; 2],
    }

    #[derive(Clone, Copy, Persist)]
    #[persist(name = "test.Named")]
    struct Renamed {
        _since: u64,
    }

    #[track_caller]
    fn is_kept<T: Persist + PartialEq + std::fmt::Debug>(value: T, bytes: &[u8]) {
        let stored = value.to_stored();
        assert_eq!(bytemuck::bytes_of(&stored), bytes);
        assert_eq!(T::from_stored(&stored), Some(value));
    }

    #[test]
    fn derived_types_are_kept_without_padding() {
        is_kept(Nothing, &[]);
        is_kept(Price(7, -1), &[7, 0, 0, 0, 0xFF, 0xFF]);
        is_kept(Order::Market, &[0; 9]);
        is_kept(Order::Limit(Price(1, 2)), &[1, 1, 0, 0, 0, 2, 0, 0, 0]);
        let iceberg = Order::Iceberg { price: Price(1, 2), shown: Some(3) };
        is_kept(iceberg, &[2, 1, 0, 0, 0, 2, 0, 1, 3]);
        let (order, next) = (Order::Market, Ptr::new(8));
        let node = Node { order, next, others: [Ptr::NULL; 2] };
        assert_eq!(Node::from_stored(&node.to_stored()), Some(node));
        assert_eq!(Node::NEXT.offset(), 9);
        assert_eq!(Ptr::<Node>::new(64).member(Node::OTHERS).at(), 64 + 17);
    }

    #[test]
    fn unknown_variants_are_noticed() {
        assert_eq!(Order::from_stored(&[3, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Order::from_stored(&[2, 0, 0, 0, 0, 0, 0, 2, 0]), None);
    }

    /// Pools hold hashes of these names, which must therefore stay the same.
    #[test]
    fn names_are_made_of_the_definition() {
        assert_eq!(Renamed::TYPE_NAME, crate::persist::TypeName::new("test.Named"));
        assert_eq!(Price::TYPE_NAME.to_string(), "Price { 0: u32, 1: i16 }");
        let node = "Node { order: Order [Market, Limit { 0: Price { 0: u32, 1: i16 } }, \
                    Iceberg { price: Price { 0: u32, 1: i16 }, shown: Option<u8> }], \
                    next: Ptr<Self>, others: [Ptr<Self>; 2] }";
        assert_eq!(Node::TYPE_NAME.to_string(), node);
        assert_eq!(Node::TYPE_NAME.hash(0), 0x521F_29D4_E7DF_D941);
    }

    mod changed {
        use crate::Persist;

        #[derive(Clone, Copy, Persist)]
        pub(super) struct Price(u32, u16);

        #[derive(Clone, Copy, Persist)]
        pub(super) struct Nothing();

        pub(super) mod fields {
            use crate::Persist;

            #[derive(Clone, Copy, Persist)]
            pub(in super::super) struct Renamed {
                _until: u64,
            }
        }

        #[derive(Clone, Copy, Persist)]
        pub(super) struct Renamed {
            _since: u64,
        }
    }

    #[test]
    fn a_type_that_was_changed_is_another_one() {
        assert_ne!(Price::TYPE_NAME.hash(0), changed::Price::TYPE_NAME.hash(0));
        assert_ne!(
            changed::Renamed::TYPE_NAME.hash(0),
            changed::fields::Renamed::TYPE_NAME.hash(0)
        );
        assert_eq!(Nothing::TYPE_NAME.hash(0), changed::Nothing::TYPE_NAME.hash(0));
    }
}
