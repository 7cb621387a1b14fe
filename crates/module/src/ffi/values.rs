//! The data type of the module's values in the host.
//!
//! A value says that its key is in the pool, and has nothing else. The exception: what RESTORE makes has its contents,
//! until the host tells that the key is there ([`settle`]); only then may they go to the pool, since the host deletes
//! the key's old value between the two.

use super::api::{self, Key, RawContext, RawText, RawValue, Text, bytes, host};
use super::{guarded, with};
use crate::node::Node;
use crate::work::{Contents, Job};
use perdura_server::KeyState;
use redis_module::raw;
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ptr;

/// The version of the values' form.
const FORM: c_int = 1;

thread_local! {
    static TYPE: Cell<*mut raw::RedisModuleType> = const { Cell::new(ptr::null_mut()) };
    /// Whether the module itself is deleting a value.
    static OWN: Cell<bool> = const { Cell::new(false) };
    /// Whether the module is taking over a value, for which it calls the host.
    static SETTLING: Cell<bool> = const { Cell::new(false) };
    /// Keys whose values were refused when the host had told its replicas of them.
    static REFUSED: RefCell<Vec<(u8, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
}

/// Whether the module itself calls the host, in the midst of a command.
pub(super) fn is_settling() -> bool {
    SETTLING.get()
}

/// The values of keys that are in the pool: an address at which nothing is.
fn in_pool() -> RawValue {
    ptr::without_provenance_mut(8)
}

/// Makes the type. Returns false if the host does not take it.
pub(super) fn register(context: RawContext) -> bool {
    let mut methods = raw::RedisModuleTypeMethods {
        // The last that Redis 7.0 knows.
        version: 4,
        rdb_load: Some(load),
        rdb_save: Some(save),
        aof_rewrite: Some(rewrite),
        mem_usage: None,
        digest: None,
        free: Some(free),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: None,
        unlink: None,
        copy: None,
        defrag: None,
        mem_usage2: None,
        free_effort2: None,
        unlink2: Some(unlink),
        copy2: None,
        aux_save2: None,
    };
    TYPE.set(host!(RedisModule_CreateDataType(context, c"perdura-k".as_ptr(), FORM, &mut methods)));
    !TYPE.get().is_null()
}

/// Whether a key may be written: not if it has a value of the host's own.
pub(super) fn is_ours(key: &Key) -> bool {
    !key.is_there() || key.value(TYPE.get()).is_some()
}

/// Brings the host's value of a key in line with the pool.
pub(super) fn adjust(key: &Key, state: KeyState) {
    match (state.is_there, key.is_there()) {
        (true, false) => key.set(TYPE.get(), in_pool()),
        (false, true) => {
            OWN.set(true);
            key.delete();
            OWN.set(false);
        }
        _ => {}
    }
    if state.is_there && key.expires() != state.expires {
        key.set_expires(state.expires);
    }
}

/// A key of which the host tells that it was restored, or came with a master's copy: its contents go to the pool. A
/// value of the host's own, from a server without the module, becomes one of the module.
pub(super) fn settle(context: RawContext, name: RawText) {
    SETTLING.set(true);
    take_over(context, name);
    SETTLING.set(false);
    with(Node::release);
}

fn take_over(context: RawContext, name: RawText) {
    // A key that is loaded has a name that the host does not let others keep.
    let own = Text::new(bytes(name));
    let name = own.0;
    let key = Key::open(context, name);
    let db = api::selected_db(context);
    let expires = key.expires().unwrap_or(0);
    match key.value(TYPE.get()) {
        Some(value) if value == in_pool() => {}
        Some(value) => {
            // SAFETY: values that are not `in_pool` are boxes of contents, made by `load`.
            let mut contents = unsafe { (*value.cast::<Contents>()).clone() };
            contents.expires = expires;
            drop_contents(key.replace(TYPE.get(), in_pool()));
            if !put(db, bytes(name), &contents) {
                refuse(&key, db, bytes(name));
            }
        }
        None if key.is_there() => {
            let Some(payload) = api::dump(context, name) else {
                super::die("the host does not give a value that was sent here");
            };
            let is_kept = put(db, bytes(name), &Contents { payload, expires });
            key.set(TYPE.get(), in_pool());
            if !is_kept {
                return refuse(&key, db, bytes(name));
            }
            if expires != 0 {
                key.set_expires(Some(expires));
            }
        }
        None => {}
    }
}

/// Puts a key's contents into the pool. Returns false if an EXEC or a script has a value that cannot be kept.
fn put(db: u8, key: &[u8], contents: &Contents) -> bool {
    let grouped = api::is_grouped();
    let done = with(|node| node.run(contents.restore(db, key), grouped));
    let fits = done.reply.first() != Some(&b'-');
    if !fits {
        let why = format!(
            "the value of the key {} was sent here and cannot be kept: {}",
            String::from_utf8_lossy(key),
            String::from_utf8_lossy(&done.reply).trim()
        );
        // The host has the key already, and is about to say so. Another node would delete its own; it sends no EXEC.
        if !grouped || api::flags(ptr::null_mut()) & api::REPLICA != 0 {
            super::die(&why);
        }
        api::log("warning", &why);
    }
    fits
}

/// Deletes the host's key whose contents the pool has refused.
fn refuse(key: &Key, db: u8, name: &[u8]) {
    OWN.set(true);
    key.delete();
    OWN.set(false);
    with(|node| node.run(Job::Remove { db, key: name.to_vec() }, api::is_grouped()));
    REFUSED.with_borrow_mut(|refused| refused.push((db, name.to_vec())));
}

/// Keys that were refused since the last call: replicas are to delete them.
pub(super) fn take_refused() -> Vec<(u8, Vec<u8>)> {
    REFUSED.take()
}

fn drop_contents(value: RawValue) {
    if !value.is_null() && value != in_pool() {
        // SAFETY: see `settle`; the host has given it up.
        drop(unsafe { Box::from_raw(value.cast::<Contents>()) });
    }
}

unsafe extern "C" fn free(value: *mut c_void) {
    drop_contents(value);
}

/// The host deletes a key: its time has come, it is evicted, or its slot has moved.
unsafe extern "C" fn unlink(key: *mut raw::RedisModuleKeyOptCtx, value: *const c_void) {
    guarded(|| {
        // A value whose contents are not in the pool yet is none of it.
        if OWN.get() || !ptr::eq(value, in_pool()) {
            return;
        }
        let name = bytes(host!(RedisModule_GetKeyNameFromOptCtx(key))).to_vec();
        let Ok(db) = u8::try_from(host!(RedisModule_GetDbIdFromOptCtx(key))) else { return };
        with(|node| node.run(Job::Remove { db, key: name }, api::is_grouped()));
    });
}

/// Writes a key for a replica, in a forked child, or for DUMP and MIGRATE.
unsafe extern "C" fn save(to: *mut raw::RedisModuleIO, _value: *mut c_void) {
    guarded(|| {
        let name = bytes(host!(RedisModule_GetKeyNameFromIO(to)));
        let db = u8::try_from(host!(RedisModule_GetDbIdFromIO(to))).unwrap_or(0);
        let contents = with(|node| match node.is_forked() {
            // The parent has ended, or could not read the key: this child's work is worth nothing.
            true => Ok(node.snapshots.ask(db, name).unwrap_or_else(|_| std::process::exit(1))),
            false => node.contents(db, name),
        });
        host!(RedisModule_SaveUnsigned(to, contents.expires));
        let payload = &contents.payload;
        host!(RedisModule_SaveStringBuffer(to, payload.as_ptr().cast(), payload.len()));
    });
}

/// Writes a key into the host's AOF: nothing, since there is none that would be loaded.
unsafe extern "C" fn rewrite(
    _to: *mut raw::RedisModuleIO,
    _key: *mut raw::RedisModuleString,
    _value: *mut c_void,
) {
}

/// Reads a key: from a master that sends all of its keys, or for RESTORE.
unsafe extern "C" fn load(from: *mut raw::RedisModuleIO, form: c_int) -> *mut c_void {
    guarded(|| {
        let name = bytes(host!(RedisModule_GetKeyNameFromIO(from)));
        let db = u8::try_from(host!(RedisModule_GetDbIdFromIO(from)));
        let contents = read(from);
        let failed = host!(RedisModule_IsIOError(from)) != 0 || form != FORM;
        let (Ok(db), Some(contents), false) = (db, contents, failed) else {
            return ptr::null_mut();
        };
        if api::flags(ptr::null_mut()) & api::LOADING == 0 {
            let job = contents.restore(db, name);
            if !with(|node| node.could(job, api::is_grouped())) {
                if api::flags(ptr::null_mut()) & api::READ_ONLY_REPLICA == api::READ_ONLY_REPLICA {
                    super::die(&format!(
                        "the master has the key {}, for which there is no room here, so that this replica would differ \
                         from it from now on. Give it a pool as large as the master's, and it takes a new copy",
                        String::from_utf8_lossy(name)
                    ));
                }
                // The node that sent it keeps it if it is refused now.
                api::log(
                    "warning",
                    "a key that another node sent was refused: the pool has no room for it",
                );
                return ptr::null_mut();
            }
            // The host deletes the key's old value, if there is one, before it tells of the new one.
            with(|node| {
                node.hold();
                Ok(())
            });
            return Box::into_raw(Box::new(contents)).cast();
        }
        if !contents.payload.is_empty() {
            put(db, name, &contents);
        }
        in_pool()
    })
}

fn read(from: *mut raw::RedisModuleIO) -> Option<Contents> {
    let expires = host!(RedisModule_LoadUnsigned(from));
    let mut len = 0;
    let start = host!(RedisModule_LoadStringBuffer(from, &mut len));
    if start.is_null() {
        return None;
    }
    // SAFETY: the host has made so many bytes, and gives them to the module.
    let payload = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) }.to_vec();
    host!(RedisModule_Free(start.cast()));
    Some(Contents { payload, expires })
}
