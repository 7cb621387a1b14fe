//! Records: each is a part of the keyspace that a command makes.

/// A command on a key of a database.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) db: u8,
    pub(crate) key: Vec<u8>,
    pub(crate) change: Change,
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
                Change::Text(value) => value.len(),
                Change::Fields(pairs) => {
                    pairs.iter().map(|(field, value)| of(field.len() + value.len())).sum()
                }
                Change::Set(items) | Change::Elements(items) => {
                    items.iter().map(|item| of(item.len())).sum()
                }
                Change::Members(members) => members.iter().map(|(_, name)| of(name.len())).sum(),
                Change::Expiry(_) | Change::Removal => 0,
            }
    }
}
