/*
 * Perdura: a durable heap. Transactions on memory that outlive a power cut.
 *
 * Generated from the crate perdura-capi: change that. C11 and C++; link with -lperdura_c.
 *
 *     perdura_pool pool;
 *     perdura_session session;
 *     perdura_offset at;
 *
 *     if (perdura_pool_open_or_create("bank.pool", NULL, &pool) != PERDURA_OK)
 *         return fprintf(stderr, "%s\n", perdura_last_error()), 1;
 *     perdura_session_open(pool, &session);
 *     perdura_begin(session, PERDURA_WRITE);
 *     perdura_alloc(session, PERDURA_GENERAL, 8, &at);
 *     perdura_write_u64(session, at, 42);
 *     perdura_root_set(session, "answer", at, PERDURA_FIRST_KIND);
 *     if (perdura_commit(session) == PERDURA_OK)
 *         puts("durable");
 *
 * ERRORS. Functions return PERDURA_OK or another code; perdura_last_error() says what happened
 * and what to do. A call that fails inside a transaction leaves it to be rolled back only, so it
 * is enough to check what perdura_commit or perdura_submit returns, as above. After an error,
 * results are 0, and bytes that would have been read are undefined.
 *
 * THREADS. A pool may be used by all threads. A session is for one thread at a time: two calls
 * at once give PERDURA_ERR_THREAD to one of them. A transaction is ended by the thread that began
 * it, and a thread has at most one open on a pool; otherwise it might wait for itself. Writers
 * wait for other transactions for as long as those are open: keep them short, and close the
 * session of a thread that has died in one. After fork() the child may not use what the parent
 * opened (PERDURA_ERR_FORKED), and should end with _exit() or exec.
 *
 * OFFSETS. There are no pointers into a pool. Reading copies out, writing copies in; only objects
 * that perdura_alloc gave, and that are not freed, can be written. Numbers are stored in the byte
 * order of the machine.
 *
 * MAPS. A hash map or an ordered map has a name in the pool (perdura_map_open_or_create), and is
 * what programs in Rust open as HashMap and OrderedMap. Keys and values are byte strings of any
 * length, or uint64_t.
 *
 * What no function can check: that a pointer which is not NULL points to as many bytes as it
 * says, and that a text ends with a zero byte.
 */

#ifndef PERDURA_H
#define PERDURA_H

#include <stddef.h>
#include <stdint.h>

// The call succeeded.
#define PERDURA_OK 0

// An invalid argument: an unknown mode, purpose or kind, a misaligned pointer, a text that is not
// UTF-8, sizes that no pool can have.
#define PERDURA_ERR_INVALID 1

// A null pointer, where none is allowed.
#define PERDURA_ERR_NULL 2

// The pool, session, map or cursor is closed or deleted, or was never open.
#define PERDURA_ERR_HANDLE 3

// The session is in use by another thread, or its transaction was begun by another one.
#define PERDURA_ERR_THREAD 4

// A transaction is open, and must be ended first.
#define PERDURA_ERR_TX_OPEN 5

// No transaction is open, and one must be begun first.
#define PERDURA_ERR_NO_TX 6

// A write in a transaction that only reads.
#define PERDURA_ERR_READ_ONLY 7

// The offset is outside of the pool, or this call may not access the bytes there.
#define PERDURA_ERR_OFFSET 8

// An earlier call in the transaction failed: the transaction was rolled back, or can only be
// rolled back.
#define PERDURA_ERR_ROLLED_BACK 9

// No room is left: in the pool, on the disk, or in the address space.
#define PERDURA_ERR_FULL 10

// The transaction is too large for the pool's log.
#define PERDURA_ERR_TOO_LARGE 11

// The limit of open sessions, or of open pools, is reached.
#define PERDURA_ERR_TOO_MANY 12

// The pool cannot be closed: sessions of it are open.
#define PERDURA_ERR_BUSY 13

// The pool is open elsewhere: in another process, or in this one.
#define PERDURA_ERR_IN_USE 14

// There is no such file.
#define PERDURA_ERR_NOT_FOUND 15

// The file to create exists already.
#define PERDURA_ERR_EXISTS 16

// The operating system denies access.
#define PERDURA_ERR_PERMISSION 17

// The file is no pool.
#define PERDURA_ERR_NOT_A_POOL 18

// The pool's format is of another version.
#define PERDURA_ERR_VERSION 19

// The pool is damaged.
#define PERDURA_ERR_CORRUPT 20

// The engine, or the persistence domain, is unknown or not available here.
#define PERDURA_ERR_UNSUPPORTED 21

// The memory is weaker than the pool requires: committed transactions would survive the death of
// the process, for example, but no power cut.
#define PERDURA_ERR_WEAKER 22

// The pool was in use by an engine without crash consistency when its process ended: its contents
// are undefined.
#define PERDURA_ERR_NOT_CONSISTENT 23

// The medium, or the operating system, failed.
#define PERDURA_ERR_IO 24

// The pool was opened before this process was forked: only the parent may use it.
#define PERDURA_ERR_FORKED 25

// A bug of the library made the call fail. If it happened in a session, this session can only be
// closed.
#define PERDURA_ERR_PANIC 26

// Another failure: see the message.
#define PERDURA_ERR_OTHER 27

// The root of this name is no map, or a map of another kind or of other types of keys or values.
#define PERDURA_ERR_TYPE 28

// The cursor has lost its place: entries were inserted or removed since.
#define PERDURA_ERR_STALE 29

// The section would wait for itself: abort it, and run it again if it waited for others.
#define PERDURA_ERR_DEADLOCK 30

// A transaction that only reads, while others may read too.
#define PERDURA_READ 0

// A transaction that may write.
#define PERDURA_WRITE 1

// Nodes, directories, and everything else.
#define PERDURA_GENERAL 0

// Keys.
#define PERDURA_KEY 1

// Values, and field-value pairs.
#define PERDURA_VALUE 2

// Log records of a program's own.
#define PERDURA_LOG 3

// A flag: open although transactions outlive less than the pool asks for.
#define PERDURA_ACCEPT_WEAKER 1

// A flag: open although the pool was left by an engine without crash consistency.
#define PERDURA_FORCE 2

// A flag: a new pool has checksums of all its pages, so that damage by its medium is noticed.
#define PERDURA_CHECKSUMS 4

// An acknowledged transaction outlives nothing.
#define PERDURA_SURVIVES_NOTHING 0

// It outlives the death of the process, by any signal.
#define PERDURA_SURVIVES_PROCESS 1

// Also a crash of the operating system.
#define PERDURA_SURVIVES_SYSTEM 2

// Also a power cut.
#define PERDURA_SURVIVES_POWER 3

// The first kind of root that is a program's own; lower ones are the library's collections.
#define PERDURA_FIRST_KIND 1000

// A kind of map: a hash map.
#define PERDURA_HASH_MAP 2

// A kind of map: an ordered map.
#define PERDURA_ORDERED_MAP 3

// Added to a kind of map: keys are uint64_t, not byte strings.
#define PERDURA_U64_KEYS 16

// Added to a kind of map: values are uint64_t, not byte strings.
#define PERDURA_U64_VALUES 32

// No bound: all keys on that side.
#define PERDURA_UNBOUNDED 0

// The bound's key is in the range.
#define PERDURA_INCLUDED 1

// The bound's key is not in the range.
#define PERDURA_EXCLUDED 2

// The pool for what fits in none of the others.
#define ARCHAPT_GENERAL PERDURA_GENERAL

// The paper's key_pool.
#define ARCHAPT_KEY PERDURA_KEY

// The paper's field_value_pool.
#define ARCHAPT_FIELD_VALUE PERDURA_VALUE

// The paper's log_pool.
#define ARCHAPT_LOG PERDURA_LOG

// How a pool is created or opened. Fill it with `perdura_options_init` first, then set what is
// to be different: programs compiled against this header then run with later libraries, whose
// structure may be longer.
typedef struct perdura_options {
    // Bytes of this structure, as the program knows it.
    size_t struct_size;
    // Bytes up to which the pool grows. 0: 1 GiB for a new pool, its own size for another.
    uint64_t size;
    // Bytes of log of a new pool: a transaction must fit. 0: an eighth of the size, at most
    // 64 MiB.
    uint64_t log_size;
    // The engine's name. NULL: `redo` for a new pool, its own for another.
    const char *engine;
    // The persistence domain: `transient`, `persistent`, `media` or `process`. NULL: the one
    // that the file's backing has.
    const char *domain;
    // `PERDURA_ACCEPT_WEAKER`, `PERDURA_FORCE`, `PERDURA_CHECKSUMS`, or several of them.
    uint32_t flags;
    // What transactions on a new pool must outlive (`PERDURA_SURVIVES_...`): it is not made
    // where they do not. 0: what they outlive where it is made.
    uint32_t must_outlive;
} perdura_options;

// An open pool. Copies are the same pool; any thread may use it.
typedef struct perdura_pool {
    // Its number; zero is none.
    uint64_t id;
} perdura_pool;

// What an open pool is. Texts end with a zero byte.
typedef struct perdura_info {
    // Bytes of this structure that were filled in.
    size_t struct_size;
    // Name of the engine.
    char engine[32];
    // Name of the persistence domain.
    char domain[32];
    // What an acknowledged transaction outlives here, in words.
    char durability[256];
    // The same, as `PERDURA_SURVIVES_...`.
    uint32_t survives;
    // Sessions that are open.
    uint32_t sessions;
    // Bytes of the file.
    uint64_t file_bytes;
    // Bytes up to which it grows.
    uint64_t limit_bytes;
    // Bytes of log.
    uint64_t log_bytes;
    // Bytes allocated to objects, or on their way to be free.
    uint64_t used_bytes;
    // Bytes that objects can still take.
    uint64_t free_bytes;
    // Committed transactions that recovery applied again when the pool was opened.
    uint64_t replayed;
    // Unfinished transactions that it undid.
    uint64_t rolled_back;
    // Log records that it discarded.
    uint64_t discarded;
    // Bytes that are freed and held back for running transactions, which may still reach them.
    uint64_t pinned_bytes;
    // For how many milliseconds, at least, the oldest of these transactions has been running; 0 if
    // none is known.
    uint64_t oldest_transaction_ms;
} perdura_info;

// One thread's transactions on a pool, one after the other.
typedef struct perdura_session {
    // Its number; zero is none.
    uint64_t id;
} perdura_session;

// A commit's place in the order of commits of its pool.
typedef uint64_t perdura_ticket;

// A place in a pool, in bytes from the pool's start: good in every process that opens the pool.
// Zero is no place. Offsets are what a program stores in a pool to refer to other objects of it;
// there are no pointers into a pool.
typedef uint64_t perdura_offset;

// A map. Copies are the same map. It is good in every transaction of every session on its pool
// until the map is deleted, and is not closed.
typedef struct perdura_map {
    // The identifier of its pool.
    uint64_t pool;
    // Where it begins; zero is no map.
    perdura_offset at;
    // What it is.
    int kind;
} perdura_map;

// Where a function copies bytes to.
typedef struct perdura_buffer {
    // `room` bytes; may be NULL if there are none.
    void *to;
    // Bytes that are copied at most.
    size_t room;
    // Set by the function: the bytes that there are, which can be more than `room`.
    size_t len;
} perdura_buffer;

// An entry of a map: copies of its key and value.
typedef struct perdura_entry {
    // The key; NULL if there is no entry.
    const void *key;
    // Its bytes.
    size_t key_len;
    // The value.
    const void *value;
    // Its bytes.
    size_t value_len;
} perdura_entry;

// What perdura_map_scan calls with each entry and its own last argument. The entry is good until
// it returns, which it must do: by no exception, and by no longjmp.
typedef void (*perdura_each)(void *context, const struct perdura_entry *entry);

// An end of a range of keys.
typedef struct perdura_bound {
    // The key; not looked at if there is no bound.
    const void *key;
    // Its bytes.
    size_t key_len;
    // `PERDURA_UNBOUNDED`, `PERDURA_INCLUDED` or `PERDURA_EXCLUDED`.
    int how;
} perdura_bound;

// A place in a range of an ordered map, between two entries. It ends with its transaction.
typedef struct perdura_cursor {
    // Its number; zero is none.
    uint64_t id;
} perdura_cursor;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The library's version, such as "0.1.0".
const char *perdura_version(void);

// A short text for a code. It is never freed.
const char *perdura_error_text(int code);

// What went wrong in this thread's last call that failed, and what to do about it. The text is
// good until the thread's next call that fails; empty if none has.
const char *perdura_last_error(void);

// The code of this thread's last call that failed; PERDURA_OK if none has.
int perdura_last_code(void);

// Fills the options with the defaults. `size` is their sizeof.
//
// Pointers:
// `options` points to `size` bytes.
int perdura_options_init(struct perdura_options *options, size_t size);

// Makes a new pool in a file that is not there yet. `options` may be NULL.
//
// Pointers:
// `path` is a text; `options` is as perdura_options_init left it but for its fields; `pool`
// points to one.
int perdura_pool_create(const char *path,
                        const struct perdura_options *options,
                        struct perdura_pool *pool);

// Opens a pool, and recovers it first if it was not closed. One process at a time may have a
// pool open, and only once. A pool that was closed opens with any engine; after a crash the
// recovery of the engine that wrote it runs first. `options` may be NULL.
//
// Pointers:
// As perdura_pool_create.
int perdura_pool_open(const char *path,
                      const struct perdura_options *options,
                      struct perdura_pool *pool);

// Opens the pool if the file is there, makes it if not. `options` may be NULL.
//
// Pointers:
// As perdura_pool_create.
int perdura_pool_open_or_create(const char *path,
                                const struct perdura_options *options,
                                struct perdura_pool *pool);

// Closes a pool whose sessions are all closed, and reports whether its medium has failed. A pool
// that is never closed is recovered when it is opened again: no commit is lost.
int perdura_pool_close(struct perdura_pool pool);

// Makes everything committed durable in place and empties the log, so that what was freed can
// be used again and the next opening has nothing to recover.
int perdura_pool_checkpoint(struct perdura_pool pool);

// Says what the pool is. `size` is the sizeof of `info`.
//
// Pointers:
// `info` points to `size` bytes.
int perdura_pool_info(struct perdura_pool pool, struct perdura_info *info, size_t size);

// Opens a session: one for each thread that uses the pool.
//
// Pointers:
// `session` points to one.
int perdura_session_open(struct perdura_pool pool, struct perdura_session *session);

// Closes a session; a transaction that is open is rolled back. Any thread may close it, for
// instance when the one that used it has died.
int perdura_session_close(struct perdura_session session);

// Begins a transaction: `PERDURA_READ` or `PERDURA_WRITE`. Waits for the transactions that must finish first.
// The thread that begins it must end it, and has no other one open on the pool meanwhile.
//
// A call that fails inside a transaction leaves it to be rolled back: what follows in it fails
// too, perdura_commit included, until perdura_commit, perdura_submit or perdura_abort ends it.
int perdura_begin(struct perdura_session session,
                  int mode);

// Begins a section, in a pool of the engine `atlas`: perdura_lock takes locks of the program in it, and what is
// written between the first lock and the end of the section is there whole or not at all after a power cut, together
// with what the section has seen of others. It is written in place at once, so that who has the lock next sees it.
// Data belongs to one lock, or to transactions.
//
// A section is ended as a transaction is: by perdura_commit, perdura_submit or perdura_abort, which release its
// locks. A call that fails in it leaves it with its locks, to be rolled back.
int perdura_begin_section(struct perdura_session session);

// Takes the lock with this number, which the program chooses, for the open section, after waiting for the section
// that has it. PERDURA_ERR_DEADLOCK if it would wait for itself, also by way of others: abort the section, and run
// it again if it waited for others.
int perdura_lock(struct perdura_session session,
                 uint64_t lock);

// Releases a lock of the open section before its end. From then on others may see what the section has written, so
// that it cannot be rolled back any more: if it fails or is aborted after it has written, nothing is committed to the
// pool until it is opened again, which undoes the section and all that followed it.
int perdura_unlock(struct perdura_session session,
                   uint64_t lock);

// Commits, and returns when that is durable: what PERDURA_OK acknowledges outlives what
// perdura_pool_info says. After an error the transaction has changed nothing, except after
// PERDURA_ERR_IO: it may or may not be there when the pool is opened again.
int perdura_commit(struct perdura_session session);

// Commits logically: others see it, and what commits later is durable later. The ticket, if
// `ticket` is not NULL, is for the durable commit.
//
// Pointers:
// `ticket` is NULL or points to one.
int perdura_submit(struct perdura_session session, perdura_ticket *ticket);

// Rolls the transaction back: nothing has happened.
int perdura_abort(struct perdura_session session);

// Returns when the commit with this ticket, and every one before it on the pool, is durable. Any
// session of the pool may wait, between its transactions.
int perdura_wait(struct perdura_session session, perdura_ticket ticket);

// Sets `durable` to 1 if the commit with this ticket is known to be durable, else to 0.
//
// Pointers:
// `durable` points to an int.
int perdura_is_durable(struct perdura_session session, perdura_ticket ticket, int *durable);

// Copies `len` bytes at `at` to `to`. A transaction sees its own writes.
//
// Pointers:
// `to` points to `len` bytes that nothing else uses meanwhile.
int perdura_read(struct perdura_session session, perdura_offset at, void *to, size_t len);

// Copies `len` bytes from `from` to `at`. They must lie in one object that perdura_alloc gave.
//
// Pointers:
// `from` points to `len` bytes that do not change meanwhile.
int perdura_write(struct perdura_session session, perdura_offset at, const void *from, size_t len);

// As perdura_write, for an object that this very transaction has allocated: it may then bypass
// the log, which is faster for large ones. `at` is a multiple of 8, and the bytes up to the next
// multiple of 8 after the end may be overwritten too.
//
// Pointers:
// As perdura_write.
int perdura_write_fresh(struct perdura_session session,
                        perdura_offset at,
                        const void *from,
                        size_t len);

// Reads the word at `at`, a multiple of 8.
//
// Pointers:
// `value` points to a word.
int perdura_read_u64(struct perdura_session session, perdura_offset at, uint64_t *value);

// Writes the word at `at`, a multiple of 8, in an object that perdura_alloc gave.
int perdura_write_u64(struct perdura_session session, perdura_offset at, uint64_t value);

// Allocates at least `len` bytes for a purpose (`PERDURA_GENERAL`, `PERDURA_KEY`,
// `PERDURA_VALUE`, `PERDURA_LOG`): objects of one purpose share pages, so that what is written
// together is flushed together. They are aligned to 8, from 33 bytes on to 64. What is in them is
// undefined: fill them before anything refers to them. If the transaction is rolled back, they
// were never allocated.
//
// Pointers:
// `at` points to an offset.
int perdura_alloc(struct perdura_session session, int purpose, uint64_t len, perdura_offset *at);

// Frees the object that perdura_alloc gave at `at`.
int perdura_free(struct perdura_session session, perdura_offset at);

// Says how many bytes the object at `at` has: what was asked for, rounded up.
//
// Pointers:
// `bytes` points to a word.
int perdura_usable_size(struct perdura_session session, perdura_offset at, uint64_t *bytes);

// Looks up the named root. `at` is 0 if there is none. `kind`, which may be NULL, is what
// perdura_root_set was given.
//
// Pointers:
// `name` is a text, `at` points to an offset, `kind` is NULL or points to a number.
int perdura_root_get(struct perdura_session session,
                     const char *name,
                     perdura_offset *at,
                     uint32_t *kind);

// Sets the named root, with which the next run finds its data; removes it if `at` is 0. What it
// referred to before stays allocated. `kind` says what is there: a number of the program's own,
// from `PERDURA_FIRST_KIND` on. A name has 1 to 255 bytes of UTF-8.
//
// Pointers:
// `name` is a text.
int perdura_root_set(struct perdura_session session,
                     const char *name,
                     perdura_offset at,
                     uint32_t kind);

// Opens the map with this name, if there is one; `map->at` is 0 if there is none. Programs in
// Rust open the same maps. `kind` is what the map was made with: `PERDURA_HASH_MAP` or
// `PERDURA_ORDERED_MAP`, to which `PERDURA_U64_KEYS`, `PERDURA_U64_VALUES` or both are added where
// keys or values are uint64_t: these are passed as 8 bytes.
//
// Pointers:
// `name` is a text, `map` points to one.
int perdura_map_open(struct perdura_session session,
                     const char *name,
                     int kind,
                     struct perdura_map *map);

// Opens the map with this name; makes an empty one if there is none. A name has 1 to 255 bytes of
// UTF-8, and is found by perdura_root_get too.
//
// Pointers:
// As perdura_map_open.
int perdura_map_open_or_create(struct perdura_session session,
                               const char *name,
                               int kind,
                               struct perdura_map *map);

// Frees the map with this name: about `budget` of its entries, or all of them if that is 0. A map
// with more entries than one transaction can free (PERDURA_ERR_TOO_LARGE) is deleted by several of
// them; until the last it is a smaller map. `done`, which may be NULL, is set to 1 if no map with
// this name is left, else to 0.
//
// Pointers:
// `name` is a text, `done` is NULL or points to an int.
int perdura_map_delete(struct perdura_session session,
                       const char *name,
                       int kind,
                       uint64_t budget,
                       int *done);

// Copies a key's value to `value->to`, but no more than `value->room` bytes of it; `value->len` is
// the length that it has. With a room of 0 only that is asked for. `found` is set to 1 if the key
// is there, else to 0.
//
// Pointers:
// `key` points to `key_len` bytes that do not change meanwhile; `value` points to a buffer whose
// `to` points to `room` bytes that nothing else uses meanwhile; `found` points to an int.
int perdura_map_get(struct perdura_session session,
                    struct perdura_map map,
                    const void *key,
                    size_t key_len,
                    struct perdura_buffer *value,
                    int *found);

// Sets a key's value. `found`, which may be NULL, is set to 1 if the key was there before, else
// to 0.
//
// Pointers:
// `key` and `value` point to `key_len` and `value_len` bytes that do not change meanwhile;
// `found` is NULL or points to an int.
int perdura_map_put(struct perdura_session session,
                    struct perdura_map map,
                    const void *key,
                    size_t key_len,
                    const void *value,
                    size_t value_len,
                    int *found);

// Removes a key and its value. `found`, which may be NULL, is set to 1 if it was there, else to 0.
//
// Pointers:
// `key` points to `key_len` bytes that do not change meanwhile; `found` is NULL or points to an
// int.
int perdura_map_remove(struct perdura_session session,
                       struct perdura_map map,
                       const void *key,
                       size_t key_len,
                       int *found);

// Sets `found` to 1 if the key is there, else to 0.
//
// Pointers:
// As perdura_map_remove.
int perdura_map_contains(struct perdura_session session,
                         struct perdura_map map,
                         const void *key,
                         size_t key_len,
                         int *found);

// Says how many entries there are. An ordered map is walked for it.
//
// Pointers:
// `len` points to a word.
int perdura_map_len(struct perdura_session session, struct perdura_map map, uint64_t *len);

// Removes all entries. perdura_map_delete can do the same in several transactions.
int perdura_map_clear(struct perdura_session session, struct perdura_map map);

// Calls `each` with some entries of a hash map, and sets `cursor` to where to go on: begin with 0,
// and stop when it is 0 again. What is in the map from the first call to the last is given at
// least once, whatever is inserted and removed in between, also by other transactions and by
// `each`, which may use the session. A call gives at least `count` entries, unless there are fewer
// in the next 16 * `count` buckets.
//
// Pointers:
// `cursor` points to a word; `each` is a function that takes `context` and returns.
int perdura_map_scan(struct perdura_session session,
                     struct perdura_map map,
                     uint64_t *cursor,
                     uint64_t count,
                     perdura_each each,
                     void *context);

// Opens a cursor on an ordered map, before the first entry whose key is in the range; a bound
// that is NULL is none. Byte strings are ordered by their bytes, uint64_t by their value. The
// cursor ends with the transaction, if it is not closed before.
//
// Pointers:
// `low` and `high` are NULL, or point to a bound whose key is as perdura_map_get wants it;
// `cursor` points to one.
int perdura_cursor_open(struct perdura_session session,
                        struct perdura_map map,
                        const struct perdura_bound *low,
                        const struct perdura_bound *high,
                        struct perdura_cursor *cursor);

// Moves behind the last entry of the range, from where perdura_cursor_prev goes on.
int perdura_cursor_to_end(struct perdura_session session, struct perdura_cursor cursor);

// Gives the entry behind the cursor, and moves behind it; `entry->key` is NULL at the end of the
// range. What `entry` points to is good until the next call with this cursor and until the
// transaction ends. Insertions and removals in the map can make the cursor stale, which is
// PERDURA_ERR_STALE; other values for keys that are there do not.
//
// Pointers:
// `entry` points to one.
int perdura_cursor_next(struct perdura_session session,
                        struct perdura_cursor cursor,
                        struct perdura_entry *entry);

// Gives the entry before the cursor, and moves before it; `entry->key` is NULL at the beginning of
// the range. Otherwise as perdura_cursor_next.
//
// Pointers:
// `entry` points to one.
int perdura_cursor_prev(struct perdura_session session,
                        struct perdura_cursor cursor,
                        struct perdura_entry *entry);

// Closes a cursor, for transactions that open many: at most 1024 can be open in one.
int perdura_cursor_close(struct perdura_session session, struct perdura_cursor cursor);

// Opens the process's pool, or makes it if the file is not there. `options` may be NULL; unless
// they name an engine, it is `archapt-redo` if this library has that, else `redo`. The paper's
// pools are parts of this one: see Archapt_Malloc.
//
// Pointers:
// `path` is a text; `options` is as perdura_options_init left it but for its fields.
int Archapt_Init(const char *path, const struct perdura_options *options);

// Closes this thread's session (a transaction that is open is rolled back) and the pool. Other
// threads that have used it must have ended. Not in the paper.
int Archapt_Exit(void);

// Begins a transaction of this thread, which may write. The last one must have been ended, or
// committed logically: a thread may commit many logically, and end the last one only.
int Archapt_Tx_Start(void);

// The logical commit: the transaction is visible to others and ordered, and its writes are over;
// it may not be durable yet. If `ticket` is not NULL, it gets what perdura_wait and
// perdura_is_durable take with Archapt_Session().
//
// Pointers:
// `ticket` is NULL or points to one.
int Archapt_Tx_LCommit(perdura_ticket *ticket);

// Ends the transaction: commits it logically, unless Archapt_Tx_LCommit has, and returns when it
// is durable (the paper's physical commit), and all that were committed before it.
int Archapt_Tx_End(void);

// Rolls the transaction back, in place of its commit. Not in the paper.
int Archapt_Tx_Abort(void);

// Allocates `size` bytes in the transaction, from the pool of a type: `ARCHAPT_KEY`,
// `ARCHAPT_FIELD_VALUE`, `ARCHAPT_LOG` or `ARCHAPT_GENERAL`. Returns 0 if that fails:
// perdura_last_code and perdura_last_error say why.
perdura_offset Archapt_Malloc(int type, size_t size);

// Frees what Archapt_Malloc gave, in the transaction. The paper's takes a type and a size, which
// do not say what to free: this takes the type and the offset. The type must be that of the
// allocation, which is checked for objects of up to 4096 bytes.
int Archapt_Free(int type, perdura_offset at);

// This thread's session on the process's pool, for perdura_read, perdura_write and the others;
// its id is 0 if there is none. It is closed when the thread ends. Not in the paper.
struct perdura_session Archapt_Session(void);

// The process's pool, for perdura_pool_info and perdura_pool_checkpoint; its id is 0 if there is
// none. Not in the paper.
struct perdura_pool Archapt_Pool(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PERDURA_H */
