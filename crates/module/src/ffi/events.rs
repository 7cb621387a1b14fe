//! What the host tells of.

use super::api::{self, RawContext, Text, c_text, host, in_db};
use super::{commands, functions, guarded, rights, shield, values, with};
use crate::node::{COPYING, Node};
use crate::work::Job;
use redis_module::raw;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Asks for the events that the module needs. Returns false if the host lacks one.
pub(super) fn subscribe(context: RawContext) -> bool {
    let server = [
        (raw::REDISMODULE_EVENT_FLUSHDB, flushed as _),
        (raw::REDISMODULE_EVENT_FORK_CHILD, forked as _),
        (raw::REDISMODULE_EVENT_EVENTLOOP, turned as _),
        (raw::REDISMODULE_EVENT_SWAPDB, swapped as _),
        (raw::REDISMODULE_EVENT_LOADING, loaded as _),
        (raw::REDISMODULE_EVENT_CONFIG, configured as _),
        (raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, promoted as _),
    ];
    server.into_iter().all(|(id, callback): (u64, Callback)| {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        host!(RedisModule_SubscribeToServerEvent(context, event, Some(callback))) == api::OK
    }) && host!(RedisModule_SubscribeToKeyspaceEvents(
        context,
        raw::REDISMODULE_NOTIFY_GENERIC | raw::REDISMODULE_NOTIFY_LOADED,
        Some(notified)
    )) == api::OK
}

type Callback = unsafe extern "C" fn(RawContext, raw::RedisModuleEvent, u64, *mut c_void);

/// Tells the host of the events that a command has told of.
pub(super) fn tell(context: RawContext, events: &[(u8, String, Vec<u8>)]) {
    for (db, event, key) in events {
        let (name, key) = (c_text(event), Text::new(key));
        in_db(context, *db, || {
            host!(RedisModule_NotifyKeyspaceEvent(context, class(event), name.as_ptr(), key.0))
        });
    }
}

/// Whether the host tells anybody of events of keys.
pub(super) fn are_wanted() -> bool {
    host!(RedisModule_GetNotifyKeyspaceEvents()) != 0
}

/// The class of an event, by its name.
fn class(event: &str) -> c_int {
    match event {
        "del" | "expire" | "persist" | "rename_from" | "rename_to" | "copy_to" | "restore"
        | "move_from" | "move_to" => raw::REDISMODULE_NOTIFY_GENERIC,
        "set" | "setrange" | "setbit" => raw::REDISMODULE_NOTIFY_STRING,
        "sortstore" => raw::REDISMODULE_NOTIFY_LIST,
        "georadiusstore" | "geosearchstore" => raw::REDISMODULE_NOTIFY_ZSET,
        _ => match event.as_bytes().first() {
            Some(b'l' | b'r') => raw::REDISMODULE_NOTIFY_LIST,
            Some(b's') => raw::REDISMODULE_NOTIFY_SET,
            Some(b'h') => raw::REDISMODULE_NOTIFY_HASH,
            Some(b'z') => raw::REDISMODULE_NOTIFY_ZSET,
            Some(b'x') => raw::REDISMODULE_NOTIFY_STREAM,
            // incrby, append, pfadd.
            _ => raw::REDISMODULE_NOTIFY_STRING,
        },
    }
}

/// All keys are about to be deleted: by FLUSHALL, or since a master sends its own.
unsafe extern "C" fn flushed(
    _context: RawContext,
    _event: raw::RedisModuleEvent,
    part: u64,
    data: *mut c_void,
) {
    guarded(|| {
        if part != raw::REDISMODULE_SUBEVENT_FLUSHDB_START || data.is_null() {
            return;
        }
        // SAFETY: that is what this event has.
        let info = unsafe { *data.cast::<raw::RedisModuleFlushInfo>() };
        let db = u8::try_from(info.dbnum).ok();
        let is_copied = api::flags(std::ptr::null_mut()) & api::TRANSFERRING != 0;
        with(|node| {
            // First: a node that is killed now must know that it has not all of the copy.
            if is_copied {
                node.keep(COPYING, Some(b""))?;
            }
            node.run(Job::Clear(db), api::is_grouped())
        });
    });
}

/// The host has exchanged two databases.
unsafe extern "C" fn swapped(
    _context: RawContext,
    _event: raw::RedisModuleEvent,
    _part: u64,
    data: *mut c_void,
) {
    guarded(|| {
        if data.is_null() {
            return;
        }
        // SAFETY: that is what this event has.
        let info = unsafe { *data.cast::<raw::RedisModuleSwapDbInfo>() };
        if let (Ok(one), Ok(other)) =
            (u8::try_from(info.dbnum_first), u8::try_from(info.dbnum_second))
        {
            with(|node| node.run(Job::Swap(one, other), api::is_grouped()));
        }
    });
}

/// A copy of a master's keys is here, with its libraries of functions.
unsafe extern "C" fn loaded(
    _context: RawContext,
    _event: raw::RedisModuleEvent,
    part: u64,
    _data: *mut c_void,
) {
    guarded(|| {
        if part == raw::REDISMODULE_SUBEVENT_LOADING_ENDED {
            with(|node| match node.kept(COPYING)? {
                Some(_) => node.keep(COPYING, None),
                None => Ok(()),
            });
            functions::changed();
        }
    });
}

/// Options of the host were changed.
unsafe extern "C" fn configured(
    context: RawContext,
    _event: raw::RedisModuleEvent,
    _part: u64,
    _data: *mut c_void,
) {
    guarded(|| super::load::read_options(context));
}

/// The node is a master from now on, or a replica.
unsafe extern "C" fn promoted(
    _context: RawContext,
    _event: raw::RedisModuleEvent,
    part: u64,
    _data: *mut c_void,
) {
    guarded(|| {
        if part == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER
            && with(|node| node.kept(COPYING)).is_some()
        {
            super::die(
                "this node was made a master, and has only a part of a copy, since it was killed while it took it",
            );
        }
    });
}

/// A child was forked, which writes all keys.
unsafe extern "C" fn forked(
    _context: RawContext,
    _event: raw::RedisModuleEvent,
    part: u64,
    _data: *mut c_void,
) {
    guarded(|| {
        if part == raw::REDISMODULE_SUBEVENT_FORK_CHILD_BORN {
            with(|node| node.forked());
        }
    });
}

/// The host is about to sleep, or has slept.
unsafe extern "C" fn turned(
    context: RawContext,
    _event: raw::RedisModuleEvent,
    part: u64,
    _data: *mut c_void,
) {
    guarded(|| {
        if part == raw::REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP {
            functions::keep(context);
            commands::tell_refused(context);
            rights::look(context);
            with(Node::end_turn);
            shield::lift();
        } else {
            with(|node| {
                node.begin_turn();
                Ok(())
            });
        }
    });
}

/// Something has happened to a key.
unsafe extern "C" fn notified(
    context: RawContext,
    _class: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    guarded(|| {
        // SAFETY: the host passes a text that ends with a zero.
        let event = unsafe { CStr::from_ptr(event) };
        if event == c"restore" || event == c"loaded" {
            values::settle(context, key);
        }
        api::OK
    })
}
