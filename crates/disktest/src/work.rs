//! The clients' transactions, which can be checked individually and together.
//!
//! Each connection has keys of its own, and numbers its transactions. Everything that a transaction writes is
//! determined by its connection, the life of the server in which it was sent, and its number; so the last transaction
//! of a connection determines the contents of all its keys. Every transaction also increments one key that all
//! connections share: so the connections' transactions have one order, and an image must hold a prefix of that.

use perdura_memory::random::SplitMix64;

/// Connections that write at once.
pub const CONNECTIONS: usize = 3;
/// Keys that are written, and deleted, in turn.
pub const RING: u64 = 12;
/// Fields of one hash that are written in turn.
pub const SLOTS: u64 = 3;
/// Members of the sorted set.
pub const MEMBERS: u64 = 10;
/// Members of the set, which are added and removed in turn.
pub const TAGS: u64 = 400;
/// Elements of the list: more than one chunk has.
pub const ELEMENTS: u64 = 20;
/// Entries of the stream, and of its group those that are pending.
pub const ENTRIES: u64 = 30;
/// See [`ENTRIES`].
pub const PENDING: u64 = 5;
/// Stamps that the script keeps.
pub const SCRIPTED: u64 = 12;
/// The stream's group.
pub const GROUP: &str = "group";
/// What a script does with a stamp, several commands of one of a transaction's.
const SCRIPT: &str = "redis.call('hset', KEYS[1], 'stamp', ARGV[1]) redis.call('rpush', KEYS[2], ARGV[1]) \
                      redis.call('ltrim', KEYS[2], -ARGV[2], -1) return redis.call('llen', KEYS[2])";

/// One transaction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The connection.
    pub connection: usize,
    /// The server's life in which it was sent.
    pub life: u32,
    /// Its number, from 1.
    pub number: u64,
}

/// The key and field that all transactions increment.
pub const SHARED: (&str, &str) = ("shared", "count");

impl Step {
    /// A text that distinguishes it from all others of its connection.
    pub fn stamp(self) -> String {
        format!("{}.{}", self.life, self.number)
    }

    /// The commands between MULTI and EXEC.
    pub fn commands(self) -> Vec<Vec<String>> {
        let Step { connection, number, .. } = self;
        let command = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
        let (stamp, text) = (self.stamp(), self.text());
        let (ring, slot) = (ring_key(connection, number % RING), slot_field(number % SLOTS));
        let (stream, consumer) = (stream_key(connection), consumer_name(number));
        let mut all: Vec<Vec<String>> = Vec::new();
        if number == 1 {
            all.push(command(&["XGROUP", "CREATE", &stream, GROUP, "$", "MKSTREAM"]));
        }
        all.extend([
            command(&[
                "XADD",
                &stream,
                "MAXLEN",
                &ENTRIES.to_string(),
                &format!("{number}-1"),
                "stamp",
                &stamp,
                "text",
                &text,
            ]),
            command(&["XREADGROUP", "GROUP", GROUP, &consumer, "STREAMS", &stream, ">"]),
            command(&["XACK", &stream, GROUP, &format!("{}-1", number.saturating_sub(PENDING))]),
            match self.deletes() {
                true => command(&["XDEL", &stream, &format!("{}-1", number - 2)]),
                false => command(&["XLEN", &stream]),
            },
            command(&[
                "EVAL",
                SCRIPT,
                "2",
                &stamp_key(connection),
                &scripted_key(connection),
                &stamp,
                &SCRIPTED.to_string(),
            ]),
            command(&["HSET", &place_key(connection), "last", &stamp, &slot, &stamp]),
            command(&["HSET", &value_key(connection), "text", &text]),
            match self.deletes() {
                true => command(&["DEL", &ring]),
                false => command(&["HSET", &ring, "text", &text]),
            },
            command(&[
                "ZADD",
                &order_key(connection),
                &number.to_string(),
                &member_name(number % MEMBERS),
            ]),
            match self.deletes() {
                true => command(&["SREM", &tags_key(connection), &tag_name(number % TAGS)]),
                false => command(&["SADD", &tags_key(connection), &tag_name(number % TAGS)]),
            },
            command(&["LPUSH", &list_key(connection), &text]),
            command(&["LTRIM", &list_key(connection), "0", &(ELEMENTS - 1).to_string()]),
            command(&["HINCRBY", SHARED.0, SHARED.1, "1"]),
        ]);
        all
    }

    /// Whether it removes its key of the ring.
    pub fn deletes(self) -> bool {
        self.number % 5 == 4
    }

    /// Its text: mostly short, sometimes longer than fits into a log.
    pub fn text(self) -> String {
        let Step { connection, life, number } = self;
        let mut random =
            SplitMix64::new(number ^ u64::from(life) << 32 ^ (connection as u64) << 56);
        let filler = match random.below(8) {
            0 => 1000 + random.below(3000),
            _ => random.below(200),
        };
        format!("{}:{}", self.stamp(), "x".repeat(filler as usize))
    }
}

/// The hash that records the last transaction.
pub fn place_key(connection: usize) -> String {
    format!("at:{connection}")
}

/// A hash with a text.
pub fn value_key(connection: usize) -> String {
    format!("value:{connection}")
}

/// One of the hashes written in turn.
pub fn ring_key(connection: usize, index: u64) -> String {
    format!("ring:{connection}:{index}")
}

/// The sorted set of numbers.
pub fn order_key(connection: usize) -> String {
    format!("order:{connection}")
}

/// The set of tags.
pub fn tags_key(connection: usize) -> String {
    format!("tags:{connection}")
}

/// One of the set's members.
pub fn tag_name(index: u64) -> String {
    format!("a tag whose name is long {index}")
}

/// The list of the last texts.
pub fn list_key(connection: usize) -> String {
    format!("list:{connection}")
}

/// The stream of the last texts.
pub fn stream_key(connection: usize) -> String {
    format!("stream:{connection}")
}

/// The consumer that gets a transaction's entry.
pub fn consumer_name(number: u64) -> String {
    format!("consumer{}", number % 2)
}

/// The hash that a script writes, and its list.
pub fn stamp_key(connection: usize) -> String {
    format!("stamp:{connection}")
}

/// See [`stamp_key`].
pub fn scripted_key(connection: usize) -> String {
    format!("scripted:{connection}")
}

/// One of the fields written in turn.
pub fn slot_field(index: u64) -> String {
    format!("slot{index}")
}

/// One of the sorted set's members.
pub fn member_name(index: u64) -> String {
    format!("m{index}")
}
