//! A pool and a session, as C has them.

use perdura_c::*;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A pool in a folder of its own, with a session.
pub(crate) struct Fixture {
    pub(crate) pool: perdura_pool,
    pub(crate) session: perdura_session,
    pub(crate) folder: Arc<TempDir>,
}

pub(crate) fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

pub(crate) fn options(size: u64) -> perdura_options {
    let mut options = std::mem::MaybeUninit::<perdura_options>::uninit();
    // SAFETY: the structure and its size; it is filled if that works.
    unsafe {
        assert_eq!(perdura_options_init(options.as_mut_ptr(), size_of::<perdura_options>()), 0);
        perdura_options { size, ..options.assume_init() }
    }
}

/// Opens a pool with one of the functions that do.
pub(crate) fn open(
    how: unsafe extern "C" fn(
        *const std::ffi::c_char,
        *const perdura_options,
        *mut perdura_pool,
    ) -> i32,
    path: &Path,
    options: &perdura_options,
) -> Result<perdura_pool, i32> {
    let (path, mut pool) = (c_path(path), perdura_pool { id: 99 });
    // SAFETY: a text, options and a pool.
    match unsafe { how(path.as_ptr(), options, &mut pool) } {
        PERDURA_OK => Ok(pool),
        code => {
            assert_eq!(pool.id, 0, "after an error there is none");
            Err(code)
        }
    }
}

pub(crate) fn session_of(pool: perdura_pool) -> perdura_session {
    let mut session = perdura_session::default();
    // SAFETY: a session.
    expect(unsafe { perdura_session_open(pool, &mut session) }, PERDURA_OK, "");
    session
}

/// The code, and a part of the message.
#[track_caller]
pub(crate) fn expect(code: i32, expected: i32, says: &str) {
    // SAFETY: texts of the library, which no other call of this thread changes meanwhile.
    let (message, text) =
        unsafe { (CStr::from_ptr(perdura_last_error()), CStr::from_ptr(perdura_error_text(code))) };
    let message = message.to_str().unwrap();
    assert_eq!(code, expected, "{text:?}: {message}");
    if code != PERDURA_OK {
        assert_eq!(perdura_last_code(), code);
        assert!(message.contains(says), "{message}");
    }
}

impl Fixture {
    pub(crate) fn new(size: u64) -> Self {
        Self::with_engine(size, None)
    }

    pub(crate) fn with_engine(size: u64, engine: Option<&CStr>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(size);
        options.engine = engine.map_or(std::ptr::null(), CStr::as_ptr);
        let path = folder.path().join("c.pool");
        let pool = open(perdura_pool_create, &path, &options).unwrap();
        Fixture { pool, session: session_of(pool), folder: Arc::new(folder) }
    }

    /// The same pool and session, of which a test replaces the session.
    pub(crate) fn of(other: &Fixture) -> Self {
        Fixture { folder: Arc::clone(&other.folder), ..*other }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("c.pool")
    }

    #[track_caller]
    pub(crate) fn begin(&self, mode: i32) {
        expect(perdura_begin(self.session, mode), PERDURA_OK, "");
    }

    #[track_caller]
    pub(crate) fn commit(&self) {
        expect(perdura_commit(self.session), PERDURA_OK, "");
    }

    #[track_caller]
    pub(crate) fn abort(&self) {
        expect(perdura_abort(self.session), PERDURA_OK, "");
    }

    #[track_caller]
    pub(crate) fn alloc(&self, len: u64) -> u64 {
        let mut at = 0;
        // SAFETY: an offset.
        let code = unsafe { perdura_alloc(self.session, PERDURA_GENERAL, len, &mut at) };
        expect(code, PERDURA_OK, "");
        at
    }

    pub(crate) fn set_root(&self, name: &CStr, at: u64, kind: u32) -> i32 {
        // SAFETY: a text.
        unsafe { perdura_root_set(self.session, name.as_ptr(), at, kind) }
    }

    pub(crate) fn root(&self, name: &CStr) -> (i32, u64, u32) {
        let (mut at, mut kind) = (9, 9);
        // SAFETY: a text, an offset, a number.
        let code = unsafe { perdura_root_get(self.session, name.as_ptr(), &mut at, &mut kind) };
        (code, at, kind)
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> i32 {
        // SAFETY: as many bytes.
        unsafe { perdura_write(self.session, at, bytes.as_ptr().cast(), bytes.len()) }
    }

    pub(crate) fn write_fresh(&self, at: u64, bytes: &[u8]) -> i32 {
        // SAFETY: as many bytes.
        unsafe { perdura_write_fresh(self.session, at, bytes.as_ptr().cast(), bytes.len()) }
    }

    pub(crate) fn read(&self, at: u64, bytes: &mut [u8]) -> i32 {
        // SAFETY: as many bytes.
        unsafe { perdura_read(self.session, at, bytes.as_mut_ptr().cast(), bytes.len()) }
    }

    pub(crate) fn word(&self, at: u64) -> (i32, u64) {
        let mut value = 9;
        // SAFETY: a word.
        (unsafe { perdura_read_u64(self.session, at, &mut value) }, value)
    }

    /// In a transaction of its own, `attempt` must fail, and the commit after it.
    #[track_caller]
    pub(crate) fn fails(&self, attempt: impl FnOnce() -> i32, code: i32, says: &str) {
        self.begin(PERDURA_WRITE);
        expect(attempt(), code, says);
        expect(perdura_commit(self.session), PERDURA_ERR_ROLLED_BACK, says);
    }

    /// Closes everything; the pool must be whole.
    #[track_caller]
    pub(crate) fn close(self) {
        expect(perdura_session_close(self.session), PERDURA_OK, "");
        expect(perdura_pool_close(self.pool), PERDURA_OK, "");
        let report = perdura::check::check(&self.path(), &|_, _, _| Ok(false)).unwrap();
        assert!(report.is_whole(), "{:?}", report.problems);
    }
}
