//! Collections without their types: a program that knows no more than the header of a collection can read its
//! contents, and put them into a new one. So a pool's data can be moved elsewhere.
//!
//! Invariant: a new collection has the tag of the one described, so that programs open it with their types. Keys and
//! values are copied as words and byte strings: the offset of another object in the pool is copied as a number, and
//! means nothing in another pool.

mod read;
mod write;

use super::form::{self, Form};
use super::string::{self, Role};
use super::tag::Tag;
use super::{hash_map, kind, ordered_map};
use crate::{Error, Purpose, Result, Tx};
pub use read::{Each, describe, for_each};
pub use write::{create, insert};

/// Bytes of a vector's largest element.
const MOST_PITCH: u64 = 1 << 20;

/// The kind of a collection, and its items' forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Description {
    /// A [`Blob`](super::Blob).
    Blob,
    /// A [`HashMap`](super::HashMap).
    HashMap(Items),
    /// An [`OrderedMap`](super::OrderedMap).
    OrderedMap(Items),
    /// A [`Vector`](super::Vector).
    Vector {
        /// Bytes from one element to the next: 1, 2, 4, or a multiple of 8 up to 1 MiB.
        pitch: u64,
        /// A hash of the name of the elements' type: 24 bits.
        types: u32,
    },
}

/// The forms and types of a map's keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items {
    /// The form of its keys.
    pub key: Form,
    /// The form of its values.
    pub value: Form,
    /// Whether it counts its entries.
    pub counted: bool,
    /// A hash of the names of both types: 24 bits.
    pub types: u32,
}

impl Description {
    /// The kind in a root to it.
    pub const fn kind(&self) -> u32 {
        match self {
            Description::Blob => kind::BLOB,
            Description::HashMap(_) => kind::HASH_MAP,
            Description::OrderedMap(_) => kind::ORDERED_MAP,
            Description::Vector { .. } => kind::VECTOR,
        }
    }

    /// The forms that its entries must have: key and value. A vector's elements, and a blob, have no key.
    pub const fn forms(&self) -> (Form, Form) {
        match self {
            Description::Blob => (Form::plain(0), Form { words: 0, string: 1 }),
            Description::HashMap(items) | Description::OrderedMap(items) => {
                (items.key, items.value)
            }
            Description::Vector { pitch, .. } => {
                (Form::plain(0), Form::plain(pitch.div_ceil(8) as usize))
            }
        }
    }

    /// Checks that there can be such a collection.
    ///
    /// # Errors
    /// `Invalid` if not, with the reason.
    pub fn check(&self) -> Result<()> {
        match self {
            Description::Blob => Ok(()),
            Description::HashMap(items) | Description::OrderedMap(items) => {
                let whole = |form: Form| {
                    form.words <= form::MAX_WORDS
                        && form.string <= form.words.min(15)
                        && form.string != 1
                };
                if !whole(items.key) || !whole(items.value) {
                    return Err(Error::Invalid(
                        "an item has at most 40 words, of which none or 2 to 15 are a byte string",
                    ));
                }
                types_fit(items.types)
            }
            Description::Vector { pitch, types } => {
                let fits = matches!(pitch, 1 | 2 | 4) || pitch.is_multiple_of(8);
                if *pitch == 0 || *pitch > MOST_PITCH || !fits {
                    return Err(Error::Invalid(
                        "a vector's elements have 1, 2, 4 or a multiple of 8 bytes, at most 1 MiB",
                    ));
                }
                types_fit(*types)
            }
        }
    }

    /// The tag of such a collection.
    const fn tag(&self) -> u64 {
        let (flags, types) = match self {
            Description::Blob => (0, 0),
            Description::HashMap(items) => (hash_map::flags(items.counted), items.types),
            Description::OrderedMap(items) => (ordered_map::flags(items.counted), items.types),
            Description::Vector { types, .. } => (0, *types),
        };
        let (key, value) = match self {
            Description::HashMap(items) | Description::OrderedMap(items) => {
                (items.key, items.value)
            }
            Description::Blob | Description::Vector { .. } => (Form::plain(0), Form::plain(0)),
        };
        Tag { kind: self.kind(), key, value, flags, types: types as u64 }.word()
    }
}

fn types_fit(types: u32) -> Result<()> {
    if types < 1 << 24 {
        Ok(())
    } else {
        Err(Error::Invalid("the hash of the types' names has at most 24 bits"))
    }
}

/// A key, a value, an element, or all of a blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Its words without a byte string at its end.
    pub words: Vec<u64>,
    /// The byte string at its end, if it has one.
    pub string: Option<Vec<u8>>,
}

impl Element {
    /// Bytes of its contents.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8 + self.string.as_ref().map_or(0, Vec::len)
    }

    /// Whether it has this form.
    pub fn fits(&self, form: Form) -> bool {
        self.words.len() == form.words - form.string && self.string.is_some() == (form.string > 0)
    }

    /// The item of this form at `at`.
    fn load<T: Tx + ?Sized>(tx: &mut T, form: Form, at: u64) -> Result<Self> {
        let plain = (form.words - form.string) as u64;
        let words = (0..plain).map(|word| tx.read_word(at + word * 8)).collect::<Result<_>>()?;
        let string = match form.string {
            0 => None,
            length => Some(string::with_string(tx, at + plain * 8, length, <[u8]>::to_vec)?),
        };
        Ok(Element { words, string })
    }

    /// Stores it at `at`, where no item is.
    pub(super) fn store<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        form: Form,
        at: u64,
        role: Role,
    ) -> Result<()> {
        let mut place = at;
        for word in &self.words {
            form::update_word(tx, place, *word)?;
            place += 8;
        }
        match &self.string {
            Some(bytes) => string::store_string(tx, place, form.string, bytes, role),
            None => Ok(()),
        }
    }

    /// Whether it is the item of this form at `at`.
    pub(super) fn is_at<T: Tx + ?Sized>(&self, tx: &mut T, form: Form, at: u64) -> Result<bool> {
        let mut place = at;
        for word in &self.words {
            if tx.read_word(place)? != *word {
                return Ok(false);
            }
            place += 8;
        }
        match &self.string {
            Some(bytes) => string::with_string(tx, place, form.string, |stored| stored == bytes),
            None => Ok(true),
        }
    }

    /// As [`Item::hash`](super::Item::hash).
    pub(super) fn hash(&self, seed: u64) -> u64 {
        let hash = self.words.iter().fold(seed, |hash, word| form::mix(hash, *word));
        self.string.as_ref().map_or(hash, |bytes| form::hash_bytes(hash, bytes))
    }
}

/// Purposes of blocks that keys and values own.
impl Role {
    pub(super) const fn purpose(self) -> Purpose {
        match self {
            Role::Key(_) => Purpose::Key,
            Role::Value => Purpose::Value,
        }
    }
}
