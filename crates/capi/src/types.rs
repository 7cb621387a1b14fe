//! The types that the header shows.
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_void};

/// A place in a pool, in bytes from the pool's start: good in every process that opens the pool.
/// Zero is no place. Offsets are what a program stores in a pool to refer to other objects of it;
/// there are no pointers into a pool.
pub type perdura_offset = u64;

/// A commit's place in the order of commits of its pool.
pub type perdura_ticket = u64;

/// An open pool. Copies are the same pool; any thread may use it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct perdura_pool {
    /// Its number; zero is none.
    pub id: u64,
}

/// One thread's transactions on a pool, one after the other.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct perdura_session {
    /// Its number; zero is none.
    pub id: u64,
}

/// A transaction that only reads, while others may read too.
pub const PERDURA_READ: i32 = 0;
/// A transaction that may write.
pub const PERDURA_WRITE: i32 = 1;

/// Nodes, directories, and everything else.
pub const PERDURA_GENERAL: i32 = 0;
/// Keys.
pub const PERDURA_KEY: i32 = 1;
/// Values, and field-value pairs.
pub const PERDURA_VALUE: i32 = 2;
/// Log records of a program's own.
pub const PERDURA_LOG: i32 = 3;

/// A flag: open although transactions outlive less than the pool asks for.
pub const PERDURA_ACCEPT_WEAKER: u32 = 1;
/// A flag: open although the pool was left by an engine without crash consistency.
pub const PERDURA_FORCE: u32 = 2;
/// A flag: a new pool has checksums of all its pages, so that damage by its medium is noticed.
pub const PERDURA_CHECKSUMS: u32 = 4;

/// An acknowledged transaction outlives nothing.
pub const PERDURA_SURVIVES_NOTHING: u32 = 0;
/// It outlives the death of the process, by any signal.
pub const PERDURA_SURVIVES_PROCESS: u32 = 1;
/// Also a crash of the operating system.
pub const PERDURA_SURVIVES_SYSTEM: u32 = 2;
/// Also a power cut.
pub const PERDURA_SURVIVES_POWER: u32 = 3;

/// The first kind of root that is a program's own; lower ones are the library's collections.
pub const PERDURA_FIRST_KIND: u32 = 1000;

/// A kind of map: a hash map.
pub const PERDURA_HASH_MAP: i32 = 2;
/// A kind of map: an ordered map.
pub const PERDURA_ORDERED_MAP: i32 = 3;
/// Added to a kind of map: keys are uint64_t, not byte strings.
pub const PERDURA_U64_KEYS: i32 = 16;
/// Added to a kind of map: values are uint64_t, not byte strings.
pub const PERDURA_U64_VALUES: i32 = 32;

/// A map. Copies are the same map. It is good in every transaction of every session on its pool
/// until the map is deleted, and is not closed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct perdura_map {
    /// The identifier of its pool.
    pub pool: u64,
    /// Where it begins; zero is no map.
    pub at: perdura_offset,
    /// What it is.
    pub kind: c_int,
}

/// Where a function copies bytes to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct perdura_buffer {
    /// `room` bytes; may be NULL if there are none.
    pub to: *mut c_void,
    /// Bytes that are copied at most.
    pub room: usize,
    /// Set by the function: the bytes that there are, which can be more than `room`.
    pub len: usize,
}

/// An entry of a map: copies of its key and value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct perdura_entry {
    /// The key; NULL if there is no entry.
    pub key: *const c_void,
    /// Its bytes.
    pub key_len: usize,
    /// The value.
    pub value: *const c_void,
    /// Its bytes.
    pub value_len: usize,
}

/// What perdura_map_scan calls with each entry and its own last argument. The entry is good until
/// it returns, which it must do: by no exception, and by no longjmp.
pub type perdura_each =
    Option<unsafe extern "C" fn(context: *mut c_void, entry: *const perdura_entry)>;

/// No bound: all keys on that side.
pub const PERDURA_UNBOUNDED: i32 = 0;
/// The bound's key is in the range.
pub const PERDURA_INCLUDED: i32 = 1;
/// The bound's key is not in the range.
pub const PERDURA_EXCLUDED: i32 = 2;

/// An end of a range of keys.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct perdura_bound {
    /// The key; not looked at if there is no bound.
    pub key: *const c_void,
    /// Its bytes.
    pub key_len: usize,
    /// `PERDURA_UNBOUNDED`, `PERDURA_INCLUDED` or `PERDURA_EXCLUDED`.
    pub how: c_int,
}

/// A place in a range of an ordered map, between two entries. It ends with its transaction.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct perdura_cursor {
    /// Its number; zero is none.
    pub id: u64,
}

/// How a pool is created or opened. Fill it with `perdura_options_init` first, then set what is
/// to be different: programs compiled against this header then run with later libraries, whose
/// structure may be longer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct perdura_options {
    /// Bytes of this structure, as the program knows it.
    pub struct_size: usize,
    /// Bytes up to which the pool grows. 0: 1 GiB for a new pool, its own size for another.
    pub size: u64,
    /// Bytes of log of a new pool: a transaction must fit. 0: an eighth of the size, at most
    /// 64 MiB.
    pub log_size: u64,
    /// The engine's name. NULL: `redo` for a new pool, its own for another.
    pub engine: *const c_char,
    /// The persistence domain: `transient`, `persistent`, `media` or `process`. NULL: the one
    /// that the file's backing has.
    pub domain: *const c_char,
    /// `PERDURA_ACCEPT_WEAKER`, `PERDURA_FORCE`, `PERDURA_CHECKSUMS`, or several of them.
    pub flags: u32,
    /// What transactions on a new pool must outlive (`PERDURA_SURVIVES_...`): it is not made
    /// where they do not. 0: what they outlive where it is made.
    pub must_outlive: u32,
}

/// What an open pool is. Texts end with a zero byte.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct perdura_info {
    /// Bytes of this structure that were filled in.
    pub struct_size: usize,
    /// Name of the engine.
    pub engine: [c_char; 32],
    /// Name of the persistence domain.
    pub domain: [c_char; 32],
    /// What an acknowledged transaction outlives here, in words.
    pub durability: [c_char; 256],
    /// The same, as `PERDURA_SURVIVES_...`.
    pub survives: u32,
    /// Sessions that are open.
    pub sessions: u32,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes up to which it grows.
    pub limit_bytes: u64,
    /// Bytes of log.
    pub log_bytes: u64,
    /// Bytes allocated to objects, or on their way to be free.
    pub used_bytes: u64,
    /// Bytes that objects can still take.
    pub free_bytes: u64,
    /// Committed transactions that recovery applied again when the pool was opened.
    pub replayed: u64,
    /// Unfinished transactions that it undid.
    pub rolled_back: u64,
    /// Log records that it discarded.
    pub discarded: u64,
    /// Bytes that are freed and held back for running transactions, which may still reach them.
    pub pinned_bytes: u64,
    /// For how many milliseconds, at least, the oldest of these transactions has been running; 0 if
    /// none is known.
    pub oldest_transaction_ms: u64,
}
