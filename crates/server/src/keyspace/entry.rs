//! What a key maps to.

use perdura::collections::{TypeName, Typed};
use perdura::{Error, Pod, Result, Zeroable};

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    String = 1,
    Hash = 2,
    SortedSet = 3,
}

impl Kind {
    /// The name that TYPE answers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
            Kind::SortedSet => "zset",
        }
    }
}

/// How it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Form {
    /// A string in the entry itself.
    Inline = 1,
    /// A string in a blob.
    Blob = 2,
    /// A small hash in one block.
    Image = 3,
    /// A hash in a hash map.
    Fields = 4,
    /// A sorted set.
    Ranking = 5,
}

/// What a key maps to, in four words: with a key of three, two entries and a word fill two
/// cache lines, which is a hash map's bucket.
///
/// The first word is `inline length << 16 | form << 8 | kind`, the second the time when it
/// expires, in milliseconds since 1970 (0: never); then an inline string's bytes, or an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Entry {
    head: u64,
    expires: u64,
    payload: [u64; 2],
}

impl Typed for Entry {
    const TYPE: TypeName = TypeName::new("perdura-server.Entry");
}

/// Longest string in an entry.
pub(super) const INLINE: usize = 16;

impl Entry {
    /// A string of at most [`INLINE`] bytes.
    pub(super) fn inline(bytes: &[u8]) -> Self {
        let mut payload = [0; INLINE];
        payload[..bytes.len()].copy_from_slice(bytes);
        let head = (bytes.len() as u64) << 16 | (Form::Inline as u64) << 8 | Kind::String as u64;
        Entry { head, expires: 0, payload: bytemuck::cast(payload) }
    }

    /// What lies at `at`.
    pub(super) fn outside(kind: Kind, form: Form, at: u64) -> Self {
        let head = (form as u64) << 8 | kind as u64;
        Entry { head, expires: 0, payload: [at, 0] }
    }

    /// Whether the head is one that was written by us.
    pub(super) fn checked(self, at: u64) -> Result<Self> {
        let pairs = [
            (Kind::String, Form::Inline),
            (Kind::String, Form::Blob),
            (Kind::Hash, Form::Image),
            (Kind::Hash, Form::Fields),
            (Kind::SortedSet, Form::Ranking),
        ];
        let sane = |(kind, form): (Kind, Form)| {
            let tags = (form as u64) << 8 | kind as u64;
            let len = self.head >> 16;
            self.head & 0xFFFF == tags && (len == 0 || form == Form::Inline && len <= 16)
        };
        if pairs.into_iter().any(sane) {
            Ok(self)
        } else {
            Err(Error::corrupt("an entry of the keyspace", at))
        }
    }

    pub(crate) fn kind(self) -> Kind {
        match self.head & 0xFF {
            1 => Kind::String,
            2 => Kind::Hash,
            _ => Kind::SortedSet,
        }
    }

    pub(super) fn form(self) -> Form {
        match self.head >> 8 & 0xFF {
            1 => Form::Inline,
            2 => Form::Blob,
            3 => Form::Image,
            4 => Form::Fields,
            _ => Form::Ranking,
        }
    }

    /// Whether it is a string in the entry itself.
    pub(crate) fn is_in_place(self) -> bool {
        self.form() == Form::Inline
    }

    /// Whether it is a small hash in one block.
    pub(crate) fn is_one_block(self) -> bool {
        self.form() == Form::Image
    }

    /// The bytes of an inline string.
    pub(super) fn inline_bytes(&self) -> &[u8] {
        let len = (self.head >> 16) as usize;
        &bytemuck::bytes_of(&self.payload)[..len.min(INLINE)]
    }

    /// Where it lies, if it is not inline.
    pub(super) fn at(self) -> u64 {
        self.payload[0]
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

    pub(super) fn words(self) -> [u64; 4] {
        bytemuck::cast(self)
    }
}
