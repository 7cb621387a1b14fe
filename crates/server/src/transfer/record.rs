//! Records: each is a part of the keyspace that a command makes.

use crate::keyspace::stream::Id;

/// A command on a key of a database.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) db: u8,
    pub(crate) key: Vec<u8>,
    pub(crate) change: Change,
}

/// A stream's last ID, how many entries it ever had, and the greatest deleted ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamEnd {
    pub(crate) last: Id,
    pub(crate) added: Option<u64>,
    pub(crate) deleted: Id,
}

/// An entry that was delivered to a consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingEntry {
    pub(crate) group: Vec<u8>,
    pub(crate) consumer: Vec<u8>,
    pub(crate) id: Id,
    /// When, and how often.
    pub(crate) time: i64,
    pub(crate) count: u64,
}

/// Its effect on the key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// SET.
    Text(Vec<u8>),
    /// HSET.
    Fields(Vec<(Vec<u8>, Vec<u8>)>),
    /// SADD.
    Set(Vec<Vec<u8>>),
    /// RPUSH.
    Elements(Vec<Vec<u8>>),
    /// ZADD.
    Members(Vec<(f64, Vec<u8>)>),
    /// XADD: an ID, fields and values by turns.
    Entry(Id, Vec<Vec<u8>>),
    /// XADD of an entry that is trimmed at once: a stream without entries.
    EmptyStream,
    /// XSETID.
    StreamEnd(StreamEnd),
    /// XGROUP CREATE: the name, the last ID, the number of entries read.
    Group(Vec<u8>, Id, Option<u64>),
    /// XGROUP CREATECONSUMER: the group, the name; when it was seen, and active, which a command does not tell.
    Consumer(Vec<u8>, Vec<u8>, Option<(i64, i64)>),
    /// XCLAIM.
    Pending(PendingEntry),
    /// FUNCTION LOAD of this code, which is under no key.
    Library(Vec<u8>),
    /// PEXPIREAT, in milliseconds since 1970.
    Expiry(u64),
    /// DEL.
    Removal,
}

impl Record {
    /// About how many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        let of = |len: usize| len + 24;
        self.key.len()
            + 64
            + match &self.change {
                Change::Text(value) | Change::Library(value) => value.len(),
                Change::Fields(pairs) => {
                    pairs.iter().map(|(field, value)| of(field.len() + value.len())).sum()
                }
                Change::Set(items) | Change::Elements(items) => {
                    items.iter().map(|item| of(item.len())).sum()
                }
                Change::Members(members) => members.iter().map(|(_, name)| of(name.len())).sum(),
                Change::Entry(_, texts) => texts.iter().map(|text| of(text.len())).sum(),
                Change::EmptyStream | Change::StreamEnd(_) => 0,
                Change::Group(name, ..) => of(name.len()),
                Change::Consumer(group, name, _) => of(group.len() + name.len()),
                Change::Pending(one) => of(one.group.len() + one.consumer.len()),
                Change::Expiry(_) | Change::Removal => 0,
            }
    }
}
