//! The host's functions, as safe ones.
//!
//! SAFETY, for each call here: [`missing`] was asked at load, so that each function is there; the arguments are what the
//! host's documentation wants; the pointers come from the host, in the call that is under way.

use redis_module::raw;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

pub(super) type RawContext = *mut raw::RedisModuleCtx;
pub(super) type RawText = *mut raw::RedisModuleString;
pub(super) type RawValue = *mut c_void;

pub(super) const OK: c_int = raw::REDISMODULE_OK as c_int;
pub(super) const ERR: c_int = raw::REDISMODULE_ERR as c_int;
pub(super) const MULTI: c_int = raw::REDISMODULE_CTX_FLAGS_MULTI as c_int;
pub(super) const LUA: c_int = raw::REDISMODULE_CTX_FLAGS_LUA as c_int;
pub(super) const RESP3: c_int = raw::REDISMODULE_CTX_FLAGS_RESP3 as c_int;
pub(super) const REPLICATED: c_int = raw::REDISMODULE_CTX_FLAGS_REPLICATED as c_int;
pub(super) const EVICTS: c_int = raw::REDISMODULE_CTX_FLAGS_EVICT as c_int;
pub(super) const REPLICA: c_int = raw::REDISMODULE_CTX_FLAGS_SLAVE as c_int;
/// A replica whose master alone sends writes.
pub(super) const READ_ONLY_REPLICA: c_int = REPLICA | raw::REDISMODULE_CTX_FLAGS_READONLY as c_int;
pub(super) const TRANSFERRING: c_int = raw::REDISMODULE_CTX_FLAGS_REPLICA_IS_TRANSFERRING as c_int;
pub(super) const LOADING: c_int = raw::REDISMODULE_CTX_FLAGS_LOADING as c_int;
pub(super) const NO_BLOCKING: c_int = raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING as c_int;
pub(super) const AOF: c_int = raw::REDISMODULE_CTX_FLAGS_AOF as c_int;
pub(super) const RDB: c_int = raw::REDISMODULE_CTX_FLAGS_RDB as c_int;

/// Calls a function of the host.
macro_rules! host {
    ($name:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: see the head of `api.rs`.
        unsafe { $crate::ffi::api::raw_function!($name)($($arg),*) }
    };
}

macro_rules! raw_function {
    ($name:ident) => {
        redis_module::raw::$name.expect("it was there at load")
    };
}

macro_rules! lacks {
    ($($name:ident),* $(,)?) => {
        [$((
            stringify!($name),
            // SAFETY: the host has set it before, and does not change it.
            unsafe {
                let function = redis_module::raw::$name;
                function.is_none()
            },
        )),*]
    };
}

pub(super) use {host, raw_function};

/// Functions that the module needs and this host lacks.
pub(super) fn missing() -> Vec<&'static str> {
    let needed = lacks!(
        RedisModule_ACLCheckCommandPermissions,
        RedisModule_BlockClientOnKeys,
        RedisModule_Call,
        RedisModule_CallReplyArrayElement,
        RedisModule_CallReplyLength,
        RedisModule_CallReplyStringPtr,
        RedisModule_CallReplyType,
        RedisModule_CloseKey,
        RedisModule_CommandFilterArgGet,
        RedisModule_CommandFilterArgInsert,
        RedisModule_CommandFilterArgReplace,
        RedisModule_CommandFilterArgsCount,
        RedisModule_CreateCommand,
        RedisModule_CreateDataType,
        RedisModule_CreateString,
        RedisModule_DbSize,
        RedisModule_DeleteKey,
        RedisModule_Free,
        RedisModule_FreeCallReply,
        RedisModule_FreeModuleUser,
        RedisModule_FreeString,
        RedisModule_GetAbsExpire,
        RedisModule_GetBlockedClientPrivateData,
        RedisModule_GetClientId,
        RedisModule_GetClientUserNameById,
        RedisModule_GetClusterNodeInfo,
        RedisModule_GetContextFlags,
        RedisModule_GetDbIdFromIO,
        RedisModule_GetDbIdFromOptCtx,
        RedisModule_GetDetachedThreadSafeContext,
        RedisModule_GetKeyNameFromIO,
        RedisModule_GetKeyNameFromOptCtx,
        RedisModule_GetModuleUserFromUserName,
        RedisModule_GetMyClusterID,
        RedisModule_GetNotifyKeyspaceEvents,
        RedisModule_GetSelectedDb,
        RedisModule_IsIOError,
        RedisModule_IsKeysPositionRequest,
        RedisModule_KeyAtPos,
        RedisModule_KeyType,
        RedisModule_LoadStringBuffer,
        RedisModule_LoadUnsigned,
        RedisModule_Log,
        RedisModule_Milliseconds,
        RedisModule_ModuleTypeGetType,
        RedisModule_ModuleTypeGetValue,
        RedisModule_ModuleTypeReplaceValue,
        RedisModule_ModuleTypeSetValue,
        RedisModule_NotifyKeyspaceEvent,
        RedisModule_OpenKey,
        RedisModule_RegisterCommandFilter,
        RedisModule_Replicate,
        RedisModule_ReplyWithArray,
        RedisModule_ReplyWithBigNumber,
        RedisModule_ReplyWithBool,
        RedisModule_ReplyWithDouble,
        RedisModule_ReplyWithError,
        RedisModule_ReplyWithLongLong,
        RedisModule_ReplyWithMap,
        RedisModule_ReplyWithNull,
        RedisModule_ReplyWithNullArray,
        RedisModule_ReplyWithSet,
        RedisModule_ReplyWithSimpleString,
        RedisModule_ReplyWithStringBuffer,
        RedisModule_ReplyWithVerbatimStringType,
        RedisModule_RetainString,
        RedisModule_SaveStringBuffer,
        RedisModule_SaveUnsigned,
        RedisModule_SelectDb,
        RedisModule_SetAbsExpire,
        RedisModule_SetClusterFlags,
        RedisModule_SetModuleOptions,
        RedisModule_SignalKeyAsReady,
        RedisModule_SignalModifiedKey,
        RedisModule_StringPtrLen,
        RedisModule_SubscribeToKeyspaceEvents,
        RedisModule_SubscribeToServerEvent,
    );
    needed.into_iter().filter(|(_, lacks)| *lacks).map(|(name, _)| name).collect()
}

/// A line of the host's log.
pub(super) fn log(level: &str, text: &str) {
    let (level, text) = (c_text(level), c_text(text));
    host!(RedisModule_Log(ptr::null_mut(), level.as_ptr(), c"%s".as_ptr(), text.as_ptr()));
}

/// A text for C: it ends at its first zero.
pub(super) fn c_text(text: impl AsRef<[u8]>) -> CString {
    let bytes: Vec<u8> = text.as_ref().iter().copied().take_while(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

/// The bytes of a text of the host's, good until its call returns.
pub(super) fn bytes<'a>(text: *const raw::RedisModuleString) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    let mut len = 0;
    let start = host!(RedisModule_StringPtrLen(text, &mut len));
    // SAFETY: the host says where its bytes are, and keeps them until the call returns.
    unsafe { slice(start, len) }
}

/// # Safety
/// The bytes stay as long as they are used.
unsafe fn slice<'a>(start: *const c_char, len: usize) -> &'a [u8] {
    if start.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}

/// The flags of a call, or, without one, of what is under way: [`MULTI`], [`LUA`].
pub(super) fn flags(context: RawContext) -> c_int {
    host!(RedisModule_GetContextFlags(context))
}

/// Whether an EXEC or a script is under way.
pub(super) fn is_grouped() -> bool {
    flags(ptr::null_mut()) & (MULTI | LUA) != 0
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    host!(RedisModule_Milliseconds()).max(0) as u64
}

pub(super) fn selected_db(context: RawContext) -> u8 {
    u8::try_from(host!(RedisModule_GetSelectedDb(context))).unwrap_or(u8::MAX)
}

/// Does something with another database selected.
pub(super) fn in_db<R>(context: RawContext, db: u8, act: impl FnOnce() -> R) -> R {
    let selected = selected_db(context);
    if db == selected {
        return act();
    }
    host!(RedisModule_SelectDb(context, c_int::from(db)));
    let done = act();
    host!(RedisModule_SelectDb(context, c_int::from(selected)));
    done
}

/// The number of a call's client.
pub(super) fn client(context: RawContext) -> u64 {
    host!(RedisModule_GetClientId(context))
}

/// This node's number in the cluster, if there is one.
pub(super) fn node_id() -> Option<String> {
    let id = host!(RedisModule_GetMyClusterID());
    if id.is_null() {
        return None;
    }
    // SAFETY: it has REDISMODULE_NODE_ID_LEN (40) letters, and perhaps no zero after them.
    Some(String::from_utf8_lossy(unsafe { slice(id, 40) }).into_owned())
}

/// Whether this node is a replica, by the host's options or the cluster's file.
pub(super) fn is_replica(context: RawContext) -> bool {
    let mut kind = 0;
    let none = ptr::null_mut();
    let of_cluster = node_id().is_some_and(|id| {
        let id = c_text(id);
        let flags = &mut kind;
        host!(RedisModule_GetClusterNodeInfo(
            context,
            id.as_ptr(),
            none,
            none,
            ptr::null_mut(),
            flags
        )) == OK
            && kind & raw::REDISMODULE_NODE_SLAVE as c_int != 0
    });
    of_cluster || flags(context) & REPLICA != 0
}

/// The host's libraries of functions.
pub(super) fn functions(context: RawContext) -> Option<Vec<u8>> {
    let arg = c"DUMP".as_ptr();
    let reply = host!(RedisModule_Call(context, c"FUNCTION".as_ptr(), c"c".as_ptr(), arg));
    bytes_of(reply)
}

/// Gives the host libraries instead of those that it has. Returns false if it does not take them.
pub(super) fn restore_functions(context: RawContext, libraries: &[u8]) -> bool {
    let reply = host!(RedisModule_Call(
        context,
        c"FUNCTION".as_ptr(),
        c"cbc".as_ptr(),
        c"RESTORE".as_ptr(),
        libraries.as_ptr(),
        libraries.len(),
        c"FLUSH".as_ptr()
    ));
    if reply.is_null() {
        return false;
    }
    let is_done = host!(RedisModule_CallReplyType(reply)) != raw::REDISMODULE_REPLY_ERROR as c_int;
    host!(RedisModule_FreeCallReply(reply));
    is_done
}

/// The arguments of a call.
pub(super) fn arguments<'a>(argv: *mut RawText, argc: c_int) -> &'a [RawText] {
    match usize::try_from(argc) {
        // SAFETY: the host passes so many, and keeps them until the call returns.
        Ok(len) if len > 0 && !argv.is_null() => unsafe { std::slice::from_raw_parts(argv, len) },
        _ => &[],
    }
}

/// A text made by the module.
pub(super) struct Text(pub(super) RawText);

impl Text {
    pub(super) fn new(text: &[u8]) -> Self {
        Text(host!(RedisModule_CreateString(ptr::null_mut(), text.as_ptr().cast(), text.len())))
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        host!(RedisModule_FreeString(ptr::null_mut(), self.0));
    }
}

/// An open key.
pub(super) struct Key(*mut raw::RedisModuleKey);

impl Key {
    /// Opens a key to be written. If it has expired, the host deletes it, and tells the module so, before this returns.
    pub(super) fn open(context: RawContext, name: RawText) -> Self {
        let mode = (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE) as c_int;
        Key(host!(RedisModule_OpenKey(context, name, mode)))
    }

    /// The host takes note that a key was read: it evicts others first.
    pub(super) fn note_read(context: RawContext, name: RawText) {
        let key = host!(RedisModule_OpenKey(context, name, raw::REDISMODULE_READ as c_int));
        if !key.is_null() {
            host!(RedisModule_CloseKey(key));
        }
    }

    pub(super) fn is_there(&self) -> bool {
        host!(RedisModule_KeyType(self.0)) != raw::REDISMODULE_KEYTYPE_EMPTY as c_int
    }

    /// The module's value, if it is of this type.
    pub(super) fn value(&self, of: *mut raw::RedisModuleType) -> Option<RawValue> {
        let is_ours = host!(RedisModule_KeyType(self.0))
            == raw::REDISMODULE_KEYTYPE_MODULE as c_int
            && host!(RedisModule_ModuleTypeGetType(self.0)) == of;
        is_ours.then(|| host!(RedisModule_ModuleTypeGetValue(self.0)))
    }

    pub(super) fn set(&self, of: *mut raw::RedisModuleType, value: RawValue) {
        host!(RedisModule_ModuleTypeSetValue(self.0, of, value));
    }

    /// Gives it another value. Returns the old one, which is the caller's.
    pub(super) fn replace(&self, of: *mut raw::RedisModuleType, value: RawValue) -> RawValue {
        let mut old = ptr::null_mut();
        host!(RedisModule_ModuleTypeReplaceValue(self.0, of, value, &mut old));
        old
    }

    pub(super) fn delete(&self) {
        host!(RedisModule_DeleteKey(self.0));
    }

    /// When it expires, in milliseconds since 1970.
    pub(super) fn expires(&self) -> Option<u64> {
        u64::try_from(host!(RedisModule_GetAbsExpire(self.0))).ok()
    }

    pub(super) fn set_expires(&self, time: Option<u64>) {
        let time = time.map_or(-1, |time| i64::try_from(time).unwrap_or(i64::MAX));
        host!(RedisModule_SetAbsExpire(self.0, time));
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        host!(RedisModule_CloseKey(self.0));
    }
}

/// What CLIENT LIST says of a client, or, without one, of all clients that send commands: a line for each.
pub(super) fn clients(context: RawContext, one: Option<u64>) -> Option<String> {
    let (kind, value) = match one {
        Some(id) => (c"ID", CString::new(id.to_string()).unwrap_or_default()),
        None => (c"TYPE", c"normal".to_owned()),
    };
    let reply = host!(RedisModule_Call(
        context,
        c"CLIENT".as_ptr(),
        c"ccc".as_ptr(),
        c"LIST".as_ptr(),
        kind.as_ptr(),
        value.as_ptr()
    ));
    if reply.is_null() {
        return None;
    }
    let text = text_of(reply);
    host!(RedisModule_FreeCallReply(reply));
    text
}

/// A command of the host's.
pub(super) struct HostCommand {
    pub(super) name: String,
    flags: Vec<String>,
}

impl HostCommand {
    pub(super) fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }
}

/// The rules of all users, a line for each.
pub(super) fn users(context: RawContext) -> Option<Vec<String>> {
    let list = c"LIST".as_ptr();
    let reply = host!(RedisModule_Call(context, c"ACL".as_ptr(), c"c".as_ptr(), list));
    if reply.is_null() {
        return None;
    }
    let count = host!(RedisModule_CallReplyLength(reply));
    let line = |at| text_of(host!(RedisModule_CallReplyArrayElement(reply, at)));
    let lines = (0..count).map(line).collect();
    host!(RedisModule_FreeCallReply(reply));
    lines
}

/// Whether the host performs a command by this name: the operator may have renamed it.
pub(super) fn has_command(context: RawContext, name: &str) -> bool {
    let name = c_text(name);
    let (info, name) = (c"INFO".as_ptr(), name.as_ptr());
    let reply = host!(RedisModule_Call(context, c"COMMAND".as_ptr(), c"cc".as_ptr(), info, name));
    if reply.is_null() {
        return false;
    }
    let found = host!(RedisModule_CallReplyArrayElement(reply, 0));
    let is_there = !found.is_null()
        && host!(RedisModule_CallReplyType(found)) == raw::REDISMODULE_REPLY_ARRAY as c_int;
    host!(RedisModule_FreeCallReply(reply));
    is_there
}

/// What INFO says of the host itself.
pub(super) fn server_info(context: RawContext) -> Option<String> {
    let part = c"server".as_ptr();
    bytes_of(host!(RedisModule_Call(context, c"INFO".as_ptr(), c"c".as_ptr(), part)))
        .map(|text| String::from_utf8_lossy(&text).into_owned())
}

/// A context for calls outside of a command, good for ever.
pub(super) fn own_context(context: RawContext) -> RawContext {
    host!(RedisModule_GetDetachedThreadSafeContext(context))
}

/// All commands of the host.
pub(super) fn host_commands(context: RawContext) -> Vec<HostCommand> {
    let reply = host!(RedisModule_Call(context, c"COMMAND".as_ptr(), c"".as_ptr()));
    if reply.is_null() {
        return Vec::new();
    }
    let element = |of, at| host!(RedisModule_CallReplyArrayElement(of, at));
    let text = |of: *mut raw::RedisModuleCallReply| match of.is_null() {
        true => String::new(),
        false => text_of(of).unwrap_or_default().to_ascii_lowercase(),
    };
    let commands = (0..host!(RedisModule_CallReplyLength(reply))).map(|at| {
        let (command, flags) = (element(reply, at), element(element(reply, at), 2));
        let count = if flags.is_null() { 0 } else { host!(RedisModule_CallReplyLength(flags)) };
        HostCommand {
            name: text(element(command, 0)),
            flags: (0..count).map(|at| text(element(flags, at))).collect(),
        }
    });
    let commands = commands.collect();
    host!(RedisModule_FreeCallReply(reply));
    commands
}

/// A key in the host's form, as DUMP answers it.
pub(super) fn dump(context: RawContext, name: RawText) -> Option<Vec<u8>> {
    // The key may be of a slot that is about to be this node's: the host reads it only if it does not look at slots.
    host!(RedisModule_SetClusterFlags(
        context,
        raw::REDISMODULE_CLUSTER_FLAG_NO_REDIRECTION.into()
    ));
    let reply = host!(RedisModule_Call(context, c"DUMP".as_ptr(), c"s".as_ptr(), name));
    host!(RedisModule_SetClusterFlags(context, raw::REDISMODULE_CLUSTER_FLAG_NONE.into()));
    bytes_of(reply)
}

/// The bytes of a reply, which is freed.
fn bytes_of(reply: *mut raw::RedisModuleCallReply) -> Option<Vec<u8>> {
    if reply.is_null() {
        return None;
    }
    let is_text = host!(RedisModule_CallReplyType(reply)) == raw::REDISMODULE_REPLY_STRING as c_int;
    let mut len = 0;
    let start = host!(RedisModule_CallReplyStringPtr(reply, &mut len));
    // SAFETY: the reply keeps its bytes until it is freed.
    let bytes = (is_text && !start.is_null()).then(|| unsafe { slice(start, len) }.to_vec());
    host!(RedisModule_FreeCallReply(reply));
    bytes
}

/// The value of an option of the host's.
pub(super) fn config(context: RawContext, name: &CStr) -> Option<String> {
    let reply = host!(RedisModule_Call(
        context,
        c"CONFIG".as_ptr(),
        c"cc".as_ptr(),
        c"GET".as_ptr(),
        name.as_ptr()
    ));
    if reply.is_null() {
        return None;
    }
    // The option's name, and its value.
    let element = host!(RedisModule_CallReplyArrayElement(reply, 1));
    let text = (!element.is_null()).then(|| text_of(element)).flatten();
    host!(RedisModule_FreeCallReply(reply));
    text
}

fn text_of(reply: *mut raw::RedisModuleCallReply) -> Option<String> {
    let mut len = 0;
    let start = host!(RedisModule_CallReplyStringPtr(reply, &mut len));
    // SAFETY: the reply keeps its text until it is freed.
    (!start.is_null()).then(|| String::from_utf8_lossy(unsafe { slice(start, len) }).into_owned())
}
