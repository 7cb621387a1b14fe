//! Invalid arguments.

use crate::SIZE;
use crate::pool::{Fixture, c_path, expect, open, options};
use perdura_c::*;
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

#[test]
fn null_pointers() {
    let c = Fixture::new(SIZE);
    let path = c_path(&c.path());
    let (mut pool, none) = (perdura_pool::default(), PERDURA_ERR_NULL);
    // SAFETY: the test passes null pointers, which the library refuses.
    unsafe {
        expect(perdura_pool_open(null(), null(), &mut pool), none, "path is null");
        expect(perdura_pool_open(path.as_ptr(), null(), null_mut()), none, "pool is null");
        expect(perdura_options_init(null_mut(), 56), none, "options is null");
        expect(perdura_pool_info(c.pool, null_mut(), 8), none, "info is null");
        expect(perdura_session_open(c.pool, null_mut()), none, "session is null");
        let (s, at) = (c.session, &mut 0);
        let name = c"name".as_ptr();
        c.fails(|| perdura_read(s, 64, null_mut(), 8), none, "to is null: pass the address");
        c.fails(|| perdura_write(s, 64, null(), 8), none, "from is null");
        c.fails(|| perdura_write_fresh(s, 64, null(), 8), none, "from is null");
        c.fails(|| perdura_read_u64(s, 64, null_mut()), none, "value is null");
        c.fails(|| perdura_alloc(s, 0, 8, null_mut()), none, "at is null");
        c.fails(|| perdura_usable_size(s, 64, null_mut()), none, "bytes is null");
        c.fails(|| perdura_is_durable(s, 0, null_mut()), none, "durable is null");
        c.fails(|| perdura_root_get(s, null(), at, null_mut()), none, "name is null");
        c.fails(|| perdura_root_get(s, name, null_mut(), null_mut()), none, "at is null");
        c.fails(|| perdura_root_set(s, null(), 0, 1000), none, "name is null");
        // These need not be there.
        c.begin(PERDURA_WRITE);
        expect(perdura_root_get(s, name, at, null_mut()), PERDURA_OK, "");
        expect(perdura_read(s, 64, null_mut(), 0), PERDURA_OK, "");
        expect(perdura_submit(s, null_mut()), PERDURA_OK, "");
        // A misaligned one is wrong, too.
        let odd = (&raw mut pool).cast::<u8>().add(1).cast::<u64>();
        c.fails(|| perdura_read_u64(s, 64, odd), PERDURA_ERR_INVALID, "value is misaligned");
    }
    c.close();
}

#[test]
fn options_that_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("never.pool");
    let refused = |change: &dyn Fn(&mut perdura_options), code, says: &str| {
        let mut options = options(SIZE);
        change(&mut options);
        expect(open(perdura_pool_create, &path, &options).unwrap_err(), code, says);
        assert!(!path.exists());
    };
    let (invalid, unsupported) = (PERDURA_ERR_INVALID, PERDURA_ERR_UNSUPPORTED);
    refused(&|o| o.engine = c"steam".as_ptr(), unsupported, "unknown engine 'steam': it is one of");
    refused(&|o| o.domain = c"public".as_ptr(), unsupported, "unknown persistence domain");
    refused(&|o| o.engine = c"\xFF".as_ptr(), invalid, "options->engine is no UTF-8 text");
    refused(&|o| o.flags = 8, invalid, "flags is 8: set PERDURA_ACCEPT_WEAKER,");
    refused(&|o| o.must_outlive = 4, invalid, "must_outlive is 4: set one of");
    refused(&|o| o.struct_size = 0, invalid, "perdura_options_init first");
    refused(&|o| o.struct_size = usize::MAX, invalid, "perdura_options_init first");
    refused(&|o| o.size = 1, invalid, "the size must be from");
    refused(&|o| o.size = u64::MAX, invalid, "the size must be from");
    refused(&|o| o.log_size = SIZE, invalid, "the log at most half of it");
    // From a later header, with a field that this library does not know.
    #[repr(C)]
    struct Later(perdura_options, u64);
    let mut later = Later(options(SIZE), 1);
    later.0.struct_size = size_of::<Later>();
    let (text, mut pool) = (c_path(&path), perdura_pool::default());
    // SAFETY: options as long as they say.
    let mut create = |later: &Later| unsafe {
        perdura_pool_create(text.as_ptr(), &raw const later.0, &mut pool)
    };
    expect(create(&later), invalid, "fields that this library does not know");
    later.1 = 0;
    expect(create(&later), PERDURA_OK, "");
    expect(perdura_pool_close(pool), PERDURA_OK, "");
    // And from an earlier one, with fewer.
    let earlier = perdura_options { struct_size: 24, engine: 8 as *const c_char, ..options(0) };
    expect(perdura_pool_close(open(perdura_pool_open, &path, &earlier).unwrap()), PERDURA_OK, "");
}

#[test]
fn purposes_sizes_and_tickets_that_cannot_be() {
    let c = Fixture::new(SIZE);
    let mut at = 9;
    // SAFETY: an offset.
    let mut alloc = |purpose, len| unsafe { perdura_alloc(c.session, purpose, len, &mut at) };
    let invalid = PERDURA_ERR_INVALID;
    c.fails(|| alloc(-1, 8), invalid, "pass PERDURA_GENERAL,");
    c.fails(|| alloc(4, 8), invalid, "pass PERDURA_GENERAL,");
    c.fails(|| alloc(0, 0), invalid, "ask for at least 1");
    c.fails(|| alloc(0, u64::MAX), PERDURA_ERR_FULL, "the pool is full");
    assert_eq!(at, 0);
    expect(perdura_wait(c.session, 1 << 60), invalid, "pass one that a commit gave");
    let mut durable = 9;
    // SAFETY: an int.
    let code = unsafe { perdura_is_durable(c.session, 1 << 60, &mut durable) };
    expect(code, invalid, "pass one that a commit gave");
    assert_eq!(durable, 0);
    expect(perdura_wait(c.session, 0), PERDURA_OK, "");
    c.begin(PERDURA_WRITE);
    expect(perdura_wait(c.session, 0), PERDURA_ERR_TX_OPEN, "end it before waiting");
    c.abort();
    c.close();
}

#[test]
fn pool_info() {
    let c = Fixture::with_engine(SIZE, Some(c"undo"));
    let mut info = std::mem::MaybeUninit::<[u8; 4096]>::uninit();
    let size = size_of::<perdura_info>();
    let at = info.as_mut_ptr().cast::<perdura_info>();
    // SAFETY: room for more than any of these sizes; filled before it is looked at.
    let info = unsafe {
        for bad in [0, 7, 5000] {
            expect(perdura_pool_info(c.pool, at, bad), PERDURA_ERR_INVALID, "pass its sizeof");
        }
        at.cast::<c_void>().write_bytes(7, 4096);
        expect(perdura_pool_info(c.pool, at, 16), PERDURA_OK, "");
        assert_eq!(at.cast::<u8>().add(16).read(), 7, "no more than there is room for");
        expect(perdura_pool_info(c.pool, at, size + 8), PERDURA_OK, "");
        assert_eq!(at.cast::<u8>().add(size).read(), 0, "what is not known is zero");
        at.read()
    };
    let text = |text: &[c_char]| -> String {
        text.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8 as char).collect()
    };
    assert_eq!((info.struct_size, text(&info.engine)), (size, "undo".to_owned()));
    assert!(!text(&info.domain).is_empty() && !text(&info.durability).is_empty());
    assert_eq!((info.sessions, info.limit_bytes), (1, SIZE));
    assert!(info.free_bytes > 0 && info.file_bytes <= SIZE && info.log_bytes == SIZE / 8);
    // SAFETY: a text of the library.
    let version = unsafe { std::ffi::CStr::from_ptr(perdura_version()) };
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
    c.close();
}
