//! Calls at random, with arguments that are good, nearly good, or neither.

use crate::SIZE;
use crate::pool::{Fixture, session_of};
use perdura_c::*;
use perdura_memory::random::SplitMix64;

/// Random choices: seeds are printed when a run fails.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(SplitMix64::new(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.next()
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A known offset, one near it, or any.
    fn offset(&mut self, known: &[u64]) -> u64 {
        let at = if known.is_empty() { 0 } else { self.pick(known) };
        match self.below(10) {
            0 => self.next(),
            1 => self.below(SIZE),
            2 => at.wrapping_add(self.below(8192)),
            3 => at.wrapping_sub(self.below(100)),
            _ => at,
        }
    }
}

fn step(random: &mut Random, c: &Fixture, session: perdura_session, known: &mut Vec<u64>) -> i32 {
    let at = random.offset(known);
    let len = random.pick(&[0, 1, 8, 24, 100, 3000, 5000]);
    let mut bytes = [random.next() as u8; 5000];
    let name = random.pick(&[c"a", c"b", c"", c"longer name"]).as_ptr();
    let (mut to, mut kind) = (0, 0);
    let pointer = bytes.as_mut_ptr().cast();
    // SAFETY: as many bytes as any `len`, texts, and places for results.
    unsafe {
        match random.below(20) {
            0..5 => perdura_begin(session, random.pick(&[0, 1, 1, 1, 2])),
            5 => perdura_abort(session),
            6..8 => perdura_commit(session),
            8 => perdura_submit(session, &mut to),
            9 => perdura_wait(session, random.pick(&[0, 1, 5, u64::MAX])),
            10 => perdura_read(session, at, pointer, len),
            11 => perdura_write(session, at, pointer, len),
            12 => perdura_write_fresh(session, at, pointer, len),
            13 => perdura_write_u64(session, at, random.next()),
            14 => perdura_read_u64(session, at, &mut to),
            15 => perdura_usable_size(session, at, &mut to),
            16 => perdura_free(session, at),
            17 => perdura_root_get(session, name, &mut to, &mut kind),
            18 => {
                let at = random.pick(&[at, 0]);
                perdura_root_set(session, name, at, random.pick(&[1000, 1001, 1]))
            }
            _ => {
                let len = random.pick(&[1, 24, 64, 100, 3000, 20_000]);
                let code = perdura_alloc(session, random.pick(&[0, 1, 2, 3, 4]), len, &mut to);
                known.extend((code == PERDURA_OK).then_some(to));
                let _ = perdura_pool_checkpoint(c.pool);
                code
            }
        }
    }
}

#[test]
fn random_calls_harm_nothing() {
    for (seed, engine) in [c"redo", c"undo", c"s-wal", c"volatile"].into_iter().enumerate() {
        println!("seed {seed}, {engine:?}");
        let mut random = Random::new(seed as u64);
        let c = Fixture::with_engine(SIZE, Some(engine));
        let other = session_of(c.pool);
        let (mut known, mut counts) = (Vec::new(), [0; 28]);
        for _ in 0..20_000 {
            let session = random.pick(&[c.session, c.session, c.session, other]);
            let code = step(&mut random, &c, session, &mut known);
            assert_ne!(code, PERDURA_ERR_PANIC);
            assert_ne!(code, PERDURA_ERR_CORRUPT, "nothing can have damaged the pool");
            counts[code as usize] += 1;
        }
        assert!(counts[PERDURA_OK as usize] > 1000, "most calls came to nothing: {counts:?}");
        // So that blocks without a root do not count as leaked.
        for session in [c.session, other] {
            let _ = perdura_abort(session);
        }
        c.begin(PERDURA_WRITE);
        let at = c.alloc(8);
        assert_eq!(c.set_root(c"kept", at, 1000), PERDURA_OK);
        c.commit();
        assert_eq!(perdura_session_close(other), PERDURA_OK);
        c.close();
    }
}

/// The values to pick from.
#[derive(Default)]
struct Known {
    maps: Vec<perdura_map>,
    cursors: Vec<perdura_cursor>,
}

unsafe extern "C" fn ignore(_: *mut std::ffi::c_void, _: *const perdura_entry) {}

fn map_step(random: &mut Random, session: perdura_session, known: &mut Known) -> i32 {
    let none = std::ptr::null();
    let kind = random.pick(&[2, 3, 3, 2 + 16, 3 + 32, 3 + 48, 7]);
    let name = random.pick(&[c"a", c"b", c"c"]).as_ptr();
    let mut map = match known.maps.as_slice() {
        [] => perdura_map::default(),
        maps => random.pick(maps),
    };
    match random.below(40) {
        0 => map.at = random.below(SIZE),
        1 => map.kind ^= 1,
        2 => map.pool ^= 1,
        _ => {}
    }
    let cursor = match known.cursors.as_slice() {
        [] => perdura_cursor::default(),
        cursors => cursors[cursors.len() - 1 - random.below(cursors.len().min(3) as u64) as usize],
    };
    let mut bytes = [random.below(4) as u8; 100];
    let (key, len) = (bytes.as_ptr().cast(), random.pick(&[8, 8, 8, 0, 1, 20, 100]));
    let mut buffer = perdura_buffer { to: bytes.as_mut_ptr().cast(), room: 40, len: 0 };
    let bound = perdura_bound { key, key_len: len, how: random.pick(&[0, 1, 2, 2, 3]) };
    let (mut to, mut found, mut opened) = (random.next(), 0, perdura_cursor::default());
    let mut entry = perdura_entry { key: none, key_len: 0, value: none, value_len: 0 };
    // SAFETY: as many bytes as any `len`, texts, and places for results.
    unsafe {
        match random.below(24) {
            0..6 => perdura_begin(session, random.pick(&[0, 1, 1])),
            6 => perdura_commit(session),
            7 => random.pick(&[perdura_commit, perdura_abort])(session),
            8..10 => {
                let code = perdura_map_open_or_create(session, name, kind, &mut map);
                known.maps.extend((code == PERDURA_OK).then_some(map));
                code
            }
            10 => perdura_map_open(session, name, kind, &mut map),
            11 => perdura_map_get(session, map, key, len, &mut buffer, &mut found),
            12..15 => perdura_map_put(session, map, key, len, key, len, &mut found),
            15 => perdura_map_remove(session, map, key, len, &mut found),
            16 => perdura_map_contains(session, map, key, len, &mut found),
            17 => perdura_map_len(session, map, &mut to),
            18 => match random.below(20) {
                0 => perdura_map_clear(session, map),
                1 => perdura_map_delete(session, name, kind, random.below(3), &mut found),
                _ => perdura_map_scan(session, map, &mut to, 3, Some(ignore), none.cast_mut()),
            },
            19 => perdura_cursor_to_end(session, cursor),
            20 => {
                let code = perdura_cursor_open(session, map, &bound, &bound, &mut opened);
                known.cursors.extend((code == PERDURA_OK).then_some(opened));
                code
            }
            21..23 => {
                let step = random.pick(&[perdura_cursor_next, perdura_cursor_prev]);
                step(session, cursor, &mut entry)
            }
            _ => perdura_cursor_close(session, cursor),
        }
    }
}

#[test]
fn random_calls_on_maps_harm_nothing() {
    for (seed, engine) in [c"redo", c"undo", c"s-wal", c"ccstm"].into_iter().enumerate() {
        println!("seed {seed}, {engine:?}");
        let mut random = Random::new(seed as u64);
        let c = Fixture::with_engine(SIZE, Some(engine));
        let other = session_of(c.pool);
        let (mut known, mut counts) = (Known::default(), [0; 30]);
        for _ in 0..20_000 {
            let session = random.pick(&[c.session, c.session, c.session, other]);
            let code = map_step(&mut random, session, &mut known);
            assert_ne!(code, PERDURA_ERR_PANIC);
            assert_ne!(code, PERDURA_ERR_CORRUPT, "nothing can have damaged the pool");
            counts[code as usize] += 1;
        }
        // About one in twenty succeeds, whatever the seed.
        assert!(counts[PERDURA_OK as usize] > 500, "nearly all calls failed: {counts:?}");
        for session in [c.session, other] {
            let _ = perdura_abort(session);
        }
        assert_eq!(perdura_session_close(other), PERDURA_OK);
        // All that is allocated is in a map with a name.
        assert_eq!(perdura_session_close(c.session), PERDURA_OK);
        assert_eq!(perdura_pool_close(c.pool), PERDURA_OK);
        let report = perdura::check::check(&c.path(), &|_, _, _| Ok(false)).unwrap();
        assert!(report.is_whole(), "{:?}", report.problems);
        assert_eq!(report.unreachable, Some(0), "{:?}", report.problems);
    }
}
