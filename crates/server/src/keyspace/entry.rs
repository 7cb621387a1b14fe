//! The entry that a key maps to.

use bytemuck::{Pod, Zeroable};
use perdura::{Error, Persist, Result};
use std::time::{SystemTime, UNIX_EPOCH};

/// The data type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    String = 1,
    Hash = 2,
    SortedSet = 3,
    Set = 4,
    List = 5,
    Stream = 6,
}

impl Kind {
    /// The name that TYPE answers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
            Kind::SortedSet => "zset",
            Kind::Set => "set",
            Kind::List => "list",
            Kind::Stream => "stream",
        }
    }
}

/// The forms in which values are held, each with its number in entries, which is never used again, and the kind of
/// value. Every `match` on a form names all of them: a new one is missed nowhere.
macro_rules! forms {
    ($($(#[$documentation:meta])* $form:ident = $number:literal, $kind:ident;)*) => {
        /// How it is held.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Form {
            $($(#[$documentation])* $form = $number,)*
        }

        impl Form {
            const ALL: &[Form] = &[$(Form::$form),*];

            const fn kind(self) -> Kind {
                match self {
                    $(Form::$form => Kind::$kind,)*
                }
            }
        }
    };
}

forms! {
    /// A string in the entry itself.
    Inline = 1, String;
    /// A string in a blob.
    Blob = 2, String;
    /// A small hash in one block.
    Image = 3, Hash;
    /// A hash in a hash map.
    Fields = 4, Hash;
    /// A sorted set.
    Ranking = 5, SortedSet;
    /// A small set in one block.
    MemberImage = 6, Set;
    /// A set in a hash map.
    Members = 7, Set;
    /// A small list in one chunk.
    Chunk = 8, List;
    /// A list in a chain of chunks.
    Chain = 9, List;
    /// A stream.
    Stream = 10, Stream;
}

/// The time that keys expire by: milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The entry that a key maps to, in three words: with a key of three, five entries and a word fill four cache lines,
/// which is a hash map's bucket.
///
/// The first word is the time when it expires, in milliseconds since 1970 (0: never). Two follow with an inline
/// string's bytes, or an offset; their last byte tells their form: `form << 4`, and the length of an inline
/// string or the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable, Persist)]
#[persist(name = "perdura-server.ShortEntry")]
#[repr(C)]
pub(crate) struct Entry {
    expires: u64,
    payload: [u8; 16],
}

/// The place in an entry of the offset of a value outside of it.
pub(super) const POINTER: u64 = std::mem::offset_of!(Entry, payload) as u64;

/// Longest string in an entry.
pub(super) const INLINE: usize = 15;

impl Entry {
    /// A string of at most [`INLINE`] bytes.
    pub(super) fn inline(bytes: &[u8]) -> Self {
        let mut payload = [0; 16];
        payload[..bytes.len()].copy_from_slice(bytes);
        payload[INLINE] = (Form::Inline as u8) << 4 | bytes.len() as u8;
        Entry { expires: 0, payload }
    }

    /// An entry of the value at `at`.
    pub(super) fn outside(kind: Kind, form: Form, at: u64) -> Self {
        let mut payload = [0; 16];
        payload[..8].copy_from_slice(&at.to_le_bytes());
        payload[INLINE] = (form as u8) << 4 | kind as u8;
        Entry { expires: 0, payload }
    }

    const fn tag(self) -> u8 {
        self.payload[INLINE]
    }

    /// Whether its words are those of a valid entry.
    pub(crate) fn checked(self, at: u64) -> Result<Self> {
        /// The tag of each form but the inline one's, by the form's number.
        const TAGS: [u8; 16] = {
            let (mut tags, mut index) = ([0; 16], 0);
            while index < Form::ALL.len() {
                let form = Form::ALL[index];
                tags[form as usize] = (form as u8) << 4 | form.kind() as u8;
                index += 1;
            }
            tags
        };
        let form = self.tag() >> 4;
        let is_outside =
            || form != 0 && self.tag() == TAGS[usize::from(form)] && self.words()[2] << 8 == 0;
        if form == Form::Inline as u8 || is_outside() {
            Ok(self)
        } else {
            Err(Error::corrupt("an entry of the keyspace", at))
        }
    }

    pub(crate) fn kind(self) -> Kind {
        self.form().kind()
    }

    /// The form of a [`checked`](Self::checked) entry.
    pub(super) fn form(self) -> Form {
        const FORMS: [Form; 16] = {
            let (mut forms, mut index) = ([Form::Ranking; 16], 0);
            while index < Form::ALL.len() {
                forms[Form::ALL[index] as usize] = Form::ALL[index];
                index += 1;
            }
            forms
        };
        FORMS[usize::from(self.tag() >> 4)]
    }

    /// Whether it is a string in the entry itself.
    pub(crate) fn is_in_place(self) -> bool {
        self.form() == Form::Inline
    }

    /// Whether it is a small hash, set or list in one block.
    pub(crate) fn is_one_block(self) -> bool {
        matches!(self.form(), Form::Image | Form::MemberImage | Form::Chunk)
    }

    /// The bytes of an inline string.
    pub(crate) fn inline_bytes(&self) -> &[u8] {
        &self.payload[..usize::from(self.tag() & 0xF)]
    }

    /// The value's offset, if it is not inline.
    pub(crate) fn at(self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|index| self.payload[index]))
    }

    /// When it expires, in milliseconds since 1970.
    pub(crate) fn expires(self) -> Option<u64> {
        (self.expires != 0).then_some(self.expires)
    }

    /// The same with another time.
    pub(crate) fn expiring(self, expires: Option<u64>) -> Self {
        Entry { expires: expires.unwrap_or(0), ..self }
    }

    pub(crate) fn expired(self, now: u64) -> bool {
        self.expires != 0 && self.expires <= now
    }

    pub(super) fn words(self) -> [u64; 3] {
        bytemuck::cast(self)
    }

    /// The entry that is stored in these words, unless they are [damaged](Self::checked).
    pub(super) fn from_words(words: [u64; 3]) -> Self {
        bytemuck::cast(words)
    }
}
