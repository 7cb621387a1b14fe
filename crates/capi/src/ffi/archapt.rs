//! The API of the Archapt paper (Table II), on one pool for the process.
#![allow(non_snake_case)]

use super::call;
use super::pointers::{self, Out};
use crate::archapt;
use crate::types::*;
use std::ffi::{c_char, c_int};

/// The pool for what fits in none of the others.
pub const ARCHAPT_GENERAL: i32 = PERDURA_GENERAL;
/// The paper's key_pool.
pub const ARCHAPT_KEY: i32 = PERDURA_KEY;
/// The paper's field_value_pool.
pub const ARCHAPT_FIELD_VALUE: i32 = PERDURA_VALUE;
/// The paper's log_pool.
pub const ARCHAPT_LOG: i32 = PERDURA_LOG;

/// Opens the process's pool, or makes it if the file is not there. `options` may be NULL; unless
/// they name an engine, it is `archapt-redo` if this library has that, else `redo`. The paper's
/// pools are parts of this one: see Archapt_Malloc.
///
/// # Safety
/// `path` is a text; `options` is as perdura_options_init left it but for its fields.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Archapt_Init(
    path: *const c_char,
    options: *const perdura_options,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (path, wanted) = unsafe { (pointers::path(path)?, pointers::wanted(options)?) };
        archapt::init(path, wanted)
    })
}

/// Closes this thread's session (a transaction that is open is rolled back) and the pool. Other
/// threads that have used it must have ended. Not in the paper.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Exit() -> c_int {
    call(archapt::exit)
}

/// Begins a transaction of this thread, which may write. The last one must have been ended, or
/// committed logically: a thread may commit many logically, and end the last one only.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Tx_Start() -> c_int {
    call(archapt::start)
}

/// The logical commit: the transaction is visible to others and ordered, and its writes are over;
/// it may not be durable yet. If `ticket` is not NULL, it gets what perdura_wait and
/// perdura_is_durable take with Archapt_Session().
///
/// # Safety
/// `ticket` is NULL or points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Archapt_Tx_LCommit(ticket: *mut perdura_ticket) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { Out::optional(ticket, "ticket", 0) }?;
        let ticket = archapt::commit_logically()?;
        to.iter().for_each(|to| to.put(ticket));
        Ok(())
    })
}

/// Ends the transaction: commits it logically, unless Archapt_Tx_LCommit has, and returns when it
/// is durable (the paper's physical commit), and all that were committed before it.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Tx_End() -> c_int {
    call(archapt::end)
}

/// Rolls the transaction back, in place of its commit. Not in the paper.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Tx_Abort() -> c_int {
    call(archapt::abort)
}

/// Allocates `size` bytes in the transaction, from the pool of a type: `ARCHAPT_KEY`,
/// `ARCHAPT_FIELD_VALUE`, `ARCHAPT_LOG` or `ARCHAPT_GENERAL`. Returns 0 if that fails:
/// perdura_last_code and perdura_last_error say why.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Malloc(r#type: c_int, size: usize) -> perdura_offset {
    let mut at = 0;
    call(|| {
        at = archapt::malloc(r#type, size as u64)?;
        Ok(())
    });
    at
}

/// Frees what Archapt_Malloc gave, in the transaction. The paper's takes a type and a size, which
/// do not say what to free: this takes the type and the offset. The type must be that of the
/// allocation, which is checked for objects of up to 4096 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Free(r#type: c_int, at: perdura_offset) -> c_int {
    call(|| archapt::free(r#type, at))
}

/// This thread's session on the process's pool, for perdura_read, perdura_write and the others;
/// its id is 0 if there is none. It is closed when the thread ends. Not in the paper.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Session() -> perdura_session {
    let mut session = perdura_session::default();
    call(|| {
        session.id = archapt::session()?;
        Ok(())
    });
    session
}

/// The process's pool, for perdura_pool_info and perdura_pool_checkpoint; its id is 0 if there is
/// none. Not in the paper.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Pool() -> perdura_pool {
    let mut pool = perdura_pool::default();
    call(|| {
        pool.id = archapt::pool()?;
        Ok(())
    });
    pool
}
