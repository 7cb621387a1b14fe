//! Offsets that are not the program's.

use crate::SIZE;
use crate::pool::{Fixture, expect, session_of};
use perdura_c::*;

#[test]
fn offsets_that_are_not_ours() {
    for engine in [c"redo", c"undo", c"volatile", c"s-wal"] {
        let c = Fixture::with_engine(SIZE, Some(engine));
        let offset = PERDURA_ERR_OFFSET;
        c.begin(PERDURA_WRITE);
        let (at, large) = (c.alloc(64), c.alloc(20_000));
        assert_eq!(c.write_fresh(at, &[1; 64]), PERDURA_OK);
        assert_eq!(c.write_fresh(large, &[2; 20_000]), PERDURA_OK);
        expect(c.set_root(c"one", at, 1000), PERDURA_OK, "");
        expect(c.set_root(c"two", large, 1001), PERDURA_OK, "");
        c.commit();
        // Header, log, page table; between objects; far outside; around the end of all numbers.
        for bad in [0, 8, 4096, 8192, 64 << 10, at + 64, large + 20_480, SIZE, 1 << 40] {
            c.fails(|| c.write(bad, b"12345678"), offset, "offset");
            c.fails(|| perdura_write_u64(c.session, bad, 1), offset, "offset");
            c.fails(|| perdura_free(c.session, bad), offset, "offset");
        }
        for bad in [u64::MAX, u64::MAX - 7, u64::MAX - 20_000, SIZE * 8] {
            c.fails(|| c.read(bad, &mut [0; 64]), offset, "are not in the pool");
            c.fails(|| c.write(bad, &[0; 64]), offset, "are not in the pool");
            c.fails(|| c.word(bad).0, offset, "are not in the pool");
        }
        // SAFETY: such lengths are refused before any byte is read.
        let huge = |len| unsafe { perdura_write(c.session, at, [0u8; 8].as_ptr().cast(), len) };
        c.fails(|| huge(usize::MAX), offset, "are not in the pool");
        c.fails(|| huge(65), offset, "run over the end of the object");
        c.fails(|| c.write(large + 20_470, &[0; 11]), offset, "run over the end of the object");
        c.fails(|| c.word(at + 4).0, offset, "pass a multiple of 8");
        c.fails(|| perdura_write_u64(c.session, at + 1, 1), offset, "pass a multiple of 8");
        c.fails(|| perdura_free(c.session, at + 8), offset, "inside of the object");
        c.fails(|| perdura_free(c.session, large + 4096), offset, "inside of the object");
        c.fails(|| c.write_fresh(at, b"old"), offset, "use perdura_write for them");
        c.fails(|| c.set_root(c"three", SIZE - 64, 1000), offset, "nothing is allocated");
        // Freed once, it is gone.
        c.begin(PERDURA_WRITE);
        expect(perdura_free(c.session, at), PERDURA_OK, "");
        expect(perdura_free(c.session, at), offset, "it was freed, or never");
        c.abort();
        c.begin(PERDURA_WRITE);
        let fresh = c.alloc(64);
        expect(perdura_free(c.session, fresh), PERDURA_OK, "");
        expect(c.write_fresh(fresh, b"gone"), offset, "");
        c.abort();
        // And all the while, the contents stayed as they were.
        c.begin(PERDURA_READ);
        let (mut one, mut two) = ([0; 64], vec![0; 20_000]);
        expect(c.read(at, &mut one), PERDURA_OK, "");
        expect(c.read(large, &mut two), PERDURA_OK, "");
        c.commit();
        assert!(one == [1; 64] && two == [2; 20_000]);
        c.close();
    }
}

#[test]
fn the_catalogue_of_roots_is_the_librarys() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let at = c.alloc(64);
    expect(c.set_root(c"mine", at, 1000), PERDURA_OK, "");
    c.commit();
    c.begin(PERDURA_READ);
    // The head of the list of roots is in the pool's third page: it can be read.
    let (code, entry) = c.word(2 * 4096);
    expect(code, PERDURA_OK, "");
    c.commit();
    let offset = PERDURA_ERR_OFFSET;
    c.fails(|| perdura_write_u64(c.session, entry, 1), offset, "named root's entry");
    c.fails(|| perdura_free(c.session, entry), offset, "named root's entry");
    // Also for a session that knew the list before it changed, and in the transaction itself.
    let other = session_of(c.pool);
    let change = |session, value| {
        assert_eq!(perdura_begin(session, PERDURA_WRITE), PERDURA_OK);
        let code = perdura_write_u64(session, entry, value);
        assert_eq!(perdura_abort(session), PERDURA_OK);
        code
    };
    expect(change(other, 5), offset, "named root's entry");
    c.begin(PERDURA_WRITE);
    expect(c.set_root(c"mine", 0, 0), PERDURA_OK, "");
    expect(c.set_root(c"another", at, 1000), PERDURA_OK, "");
    let (_, new) = c.word(2 * 4096);
    expect(perdura_write_u64(c.session, new, 1), offset, "named root's entry");
    c.abort();
    expect(change(other, 5), offset, "named root's entry");
    expect(change(c.session, 5), offset, "named root's entry");
    expect(perdura_session_close(other), PERDURA_OK, "");

    let invalid = PERDURA_ERR_INVALID;
    c.fails(|| c.set_root(c"", at, 1000), invalid, "1 to 255 bytes");
    c.fails(|| c.set_root(c"a", at, 999), invalid, "choose one from 1000 on");
    let long = std::ffi::CString::new(vec![b'x'; 256]).unwrap();
    c.fails(|| c.set_root(&long, at, 1000), invalid, "1 to 255 bytes");
    c.fails(|| c.set_root(c"\xC3", at, 1000), invalid, "name is no UTF-8 text");
    c.close();
}
