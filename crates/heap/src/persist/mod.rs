//! Values that a pool can hold: numbers, arrays, tuples, options, and a program's own structs and enums of them.
//!
//! Invariant: a value takes the same bytes in every program and on every machine, without padding, and bytes that are
//! no valid value (the third variant of an enum that has two) are an error when they are read.
//!
//! Reading order: [`Persist`], [`name`](TypeName) (which type is which), `plain` (the types that need no derive),
//! `record` (called by derived code).

mod name;
mod plain;
mod record;

use bytemuck::Pod;
pub use name::TypeName;
pub use record::{Itself, Member, Reader, Writer, largest, size};

/// A type whose values a pool can hold: as keys, values and elements of collections, and as objects of their own.
///
/// Integers, floats, `bool`, `char`, arrays, tuples of up to four, `Option` and [`Ptr`](crate::Ptr) are. A program derives it for
/// structs and enums of such fields, which are `Copy` as well:
///
/// ```
/// use perdura::Persist;
/// use perdura::collections::HashMap;
///
/// #[derive(Clone, Copy, Debug, PartialEq, Persist)]
/// enum State {
///     Open,
///     Closed { at: u64 },
/// }
///
/// #[derive(Clone, Copy, Debug, PartialEq, Persist)]
/// #[persist(fields)]
/// struct Account {
///     balance: i64,
///     state: State,
///     parent: Option<u64>,
/// }
///
/// # perdura::testing::TestHeap::new().run(&mut |tx| {
/// let accounts = HashMap::<u64, Account>::create(tx)?;
/// let account = Account { balance: 100, state: State::Open, parent: None };
/// accounts.insert(tx, 7, account)?;
///
/// // One field of it, where it lies:
/// use perdura::TxExt;
/// let place = accounts.slot(tx, 7)?.expect("it was inserted").member(Account::BALANCE);
/// tx.write(place, 90)?;
/// assert_eq!(accounts.get(tx, 7)?, Some(Account { balance: 90, ..account }));
/// # Ok(())
/// # }).unwrap();
/// ```
///
/// A collection remembers its types, and is not opened with others. A derived type's name is made from its
/// definition: its identifier, the names and types of its fields in their order, and for an enum its variants. So a type that was
/// changed is another type, and its values are not misread ([`Error::WrongType`](crate::Error::WrongType)).
///
/// - `#[persist(name = "bank.Account")]` gives it a name of the program's choice in place of that: fields can be renamed then. A type
///   whose layout has changed must get another name.
/// - `#[persist(fields)]` makes a [`Member`] constant of each field of a struct: `Account::BALANCE`.
///
/// A collection's keys and values have up to 256 bytes: of a larger value it keeps the [`Ptr`](crate::Ptr) that
/// [`new_object`](crate::TxExt::new_object) returns. A type with parameters cannot derive it; a tuple of storable types is
/// storable.
///
/// A field's type may refer to the type itself in a `Ptr<Self>`; two types that refer to each other need
/// a name for one of them.
///
/// A type without it is not taken:
///
/// ```compile_fail,E0599
/// use perdura::collections::HashMap;
///
/// #[derive(Clone, Copy)]
/// struct Account {
///     balance: i64,
/// }
/// # fn create(tx: &mut dyn perdura::Tx) -> perdura::Result<HashMap<u64, Account>> {
/// HashMap::<u64, Account>::create(tx)
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "values of `{Self}` cannot be kept in a pool",
    note = "derive it: `#[derive(Clone, Copy, perdura::Persist)]`; byte strings of any length are `perdura::collections::Bytes`"
)]
pub trait Persist: Copy + 'static {
    /// A value's bytes: `[u8; N]`, or a type with that layout.
    type Bytes: Pod;

    /// The type's name.
    const TYPE_NAME: TypeName;

    /// The value's bytes, in little-endian order.
    fn to_stored(self) -> Self::Bytes;

    /// The value with these bytes; `None` if there is none.
    fn from_stored(bytes: &Self::Bytes) -> Option<Self>;
}
