//! Readers alongside writers: they go on until something is stored, and see whole transactions.

use crate::ram;
use perdura_engine::Tuning;
use perdura_engine::area::SMALLEST;
use perdura_engine::{
    Access, ArchaptRedoEngine, ArchaptUndoEngine, CcStmEngine, Engine, Error, Mode, Result,
    Session, SkippingRedoEngine, SkippingUndoEngine, on_each_engine,
};
use perdura_memory::AnyMemory;
use perdura_memory::random::SplitMix64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const DATA: u64 = 1 << 20;
const BYTES: u64 = 2 << 20;
/// Words of a transaction, each in a line of its own: some are more than a group may hold.
const WORDS: [u64; 3] = [1, 30, 300];
const MOST: u64 = 300;

fn start<E: Engine<AnyMemory>>() -> Arc<E> {
    let memory = Arc::new(ram(BYTES));
    let log = SMALLEST + E::beside_log(BYTES);
    assert!(log <= DATA, "{log} bytes of log");
    E::format(&memory, 0..log);
    E::start(memory, 0..log).expect("an empty log")
}

fn word(index: u64) -> u64 {
    DATA + index * 64
}

/// Reads all words, in a running transaction.
fn read_lines(session: &mut impl Session) -> Vec<u64> {
    (0..MOST).map(|index| session.read_word(word(index)).unwrap()).collect()
}

/// Reads all words in one transaction.
fn read_all(session: &mut impl Session) -> Vec<u64> {
    let (values, ticket) = run(session, Mode::Read, |session| {
        let words: Result<Vec<u64>> =
            (0..MOST).map(|index| session.read_word(word(index))).collect();
        Ok((words?, session.commit()?))
    });
    session.wait_durable(ticket).unwrap();
    values
}

/// Runs a transaction until it meets no conflict.
fn run<S: Session, R>(session: &mut S, mode: Mode, mut body: impl FnMut(&mut S) -> Result<R>) -> R {
    for conflicts in 0.. {
        match conflicts {
            0 => session.begin(mode),
            _ => session.begin_again(mode, conflicts),
        }
        match body(session) {
            Err(Error::Conflict) => session.abort(),
            other => return other.unwrap(),
        }
    }
    unreachable!("it returns");
}

/// On one thread: a reader that had to wait would wait for ever.
fn readers_go_on<E: Engine<AnyMemory>>() {
    let engine = start::<E>();
    let (mut writer, mut reader) = (engine.session().unwrap(), engine.session().unwrap());
    for round in 1..50 {
        writer.begin(Mode::Write);
        for index in 0..WORDS[round as usize % 3] {
            writer.write_word(word(index), round).unwrap();
            assert_eq!(writer.read_word(word(index)).unwrap(), round);
        }
        assert_eq!(read_all(&mut reader)[0], round - 1, "{}", E::NAME);
        let ticket = writer.commit().unwrap();
        assert_eq!(read_all(&mut reader)[0], round, "{}", E::NAME);
        assert!(reader.is_durable(ticket), "{}: it was read, and the reader waited", E::NAME);
    }
}

#[test]
fn readers_go_on_until_the_writer_stores() {
    on_each_engine!(crash_consistent readers_go_on::<AnyMemory>());
}

/// On one thread: a writer that had to wait for the reader would wait for ever.
fn a_reader_stays_where_it_is<E: Engine<AnyMemory>>() {
    let engine = start::<E>();
    let (mut writer, mut reader) = (engine.session().unwrap(), engine.session().unwrap());
    let mut later = engine.session().unwrap();
    engine.tune(&Tuning { answer_within_ns: Some(u64::MAX), ..Tuning::default() });
    let read = |session: &mut E::Session, index: u64| {
        let mut bytes = [0; 24];
        session.read_bytes(word(index) - 8, &mut bytes).unwrap();
        let value = u64::from_ne_bytes(bytes[8..16].try_into().unwrap());
        assert_eq!(session.read_word(word(index)).unwrap(), value);
        value
    };
    let mut set = |range: std::ops::Range<u64>, to| {
        writer.begin(Mode::Write);
        range.for_each(|index| writer.write_word(word(index), to).unwrap());
        writer.commit().unwrap()
    };
    set(0..2, 1);
    reader.begin(Mode::Read);
    // Fewer words than fit into a group, but more versions of lines than there is room for at first: only that makes
    // the writer wait for readers.
    let tickets: Vec<_> = (2..100).map(|to| set(1..4, to)).collect();
    assert_eq!([0, 1, 2, 3].map(|index| read(&mut reader, index)), [1, 1, 0, 0], "{}", E::NAME);
    later.begin(Mode::Read);
    assert_eq!([0, 1, 2, 3].map(|index| read(&mut later, index)), [1, 99, 99, 99]);
    let (before, after) = (reader.commit().unwrap(), later.commit().unwrap());
    assert!(before < tickets[0] && after == tickets[tickets.len() - 1]);
    later.wait_durable(after).unwrap();
    let many: Vec<_> = (100..1000).map(|to| set(1..4, to)).collect();
    assert_eq!(read_all(&mut later)[..5], [1, 999, 999, 999, 0]);
    assert!(later.is_durable(many[many.len() - 1]));
}

#[test]
fn joining_a_group_waits_for_no_reader() {
    a_reader_stays_where_it_is::<ArchaptUndoEngine<AnyMemory>>();
    a_reader_stays_where_it_is::<ArchaptRedoEngine<AnyMemory>>();
    a_reader_stays_where_it_is::<SkippingUndoEngine<AnyMemory>>();
    a_reader_stays_where_it_is::<SkippingRedoEngine<AnyMemory>>();
}

/// Increments the words, in transactions of three sizes: the first word counts them all, and the others lag behind, the
/// later ones more. Waits as `seed` says.
fn write<S: Session>(session: &mut S, seed: u64, rounds: u64) {
    let mut random = SplitMix64::new(seed);
    for _ in 0..rounds {
        let (words, how) = (WORDS[random.below(3) as usize], random.below(8));
        let committed = run(session, Mode::Write, |session| {
            let next = session.read_word(word(0))? + 1;
            for index in 0..words {
                session.write_word(word(index), next)?;
            }
            match how {
                0 => session.abort(),
                1..4 => return session.commit_awaited().map(Some),
                _ => drop(session.commit()?),
            }
            Ok(None)
        });
        if let Some(ticket) = committed {
            session.wait_durable(ticket).unwrap();
        }
        if random.below(50) == 0 {
            session.checkpoint().unwrap();
        }
    }
}

/// Words that are written together are read together, and none goes back in time.
fn check(before: &[u64], values: &[u64], name: &str) {
    assert!(values.windows(2).all(|pair| pair[0] >= pair[1]), "{name}: {values:?}");
    for range in [1..WORDS[1] as usize, WORDS[1] as usize..MOST as usize] {
        let together = &values[range];
        assert!(together.iter().all(|value| *value == together[0]), "{name}: {values:?}");
    }
    assert!(values.iter().zip(before).all(|(now, before)| now >= before), "{name}: {values:?}");
}

fn transactions_are_whole<E: Engine<AnyMemory>>() {
    let engine = start::<E>();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut session = engine.session().unwrap();
                let mut before = vec![0; MOST as usize];
                while !over.load(Ordering::Relaxed) {
                    let values = read_all(&mut session);
                    check(&before, &values, E::NAME);
                    before = values;
                }
            });
        }
        let writers = [1, 2].map(|seed| {
            let engine = &engine;
            scope.spawn(move || write(&mut engine.session().unwrap(), seed, 3000))
        });
        let ended = writers.map(|writer| writer.join());
        over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.expect("no panic"));
    });
}

#[test]
fn readers_see_whole_transactions() {
    on_each_engine!(rolling_back transactions_are_whole::<AnyMemory>());
}

/// A long reader on one thread with a writer: it sees the state at the time it had read much, makes no commit wait, and
/// memory freed meanwhile is not reused before it ends.
#[test]
fn a_long_reader_has_a_snapshot() {
    const MANY: u64 = 1500;
    let engine = start::<CcStmEngine<AnyMemory>>();
    let (mut writer, mut reader) = (engine.session().unwrap(), engine.session().unwrap());
    let mut add = |index: u64, by: u64| {
        run(&mut writer, Mode::Write, |session| {
            let old = session.read_word(word(index))?;
            session.write_word(word(index), old.wrapping_add(by))?;
            session.commit()
        })
    };
    (0..MANY).for_each(|index| _ = add(index, 100));
    reader.begin(Mode::Read);
    let mut sum = 0;
    for index in 0..MANY {
        let mut bytes = [0; 8];
        if index % 2 == 0 {
            sum += reader.read_word(word(index)).expect("no conflict");
        } else {
            reader.read_bytes(word(index), &mut bytes).expect("no conflict");
            sum += u64::from_ne_bytes(bytes);
        }
        if index > 1000 {
            // From words that are still to be read to words that were, and a few more.
            add(MANY - 1 - index % 400, 7);
            add(index - 1000, 1);
        }
    }
    assert_eq!(sum, MANY * 100);
    let last = add(0, 1);
    engine.checkpoint().unwrap();
    assert!(engine.reclaimable() < last, "the reader may look there");
    reader.commit().unwrap();
    engine.checkpoint().unwrap();
    assert!(engine.reclaimable() >= last);
    assert_eq!(reader.counters().aborts_conflict, 0);
}

/// On one thread: a writer that had to wait for a long reader would wait for ever.
fn a_long_reader<E: Engine<AnyMemory>>() {
    let engine = start::<E>();
    let mut sessions = [0; 3].map(|_| engine.session().unwrap());
    let [writer, reader, other] = &mut sessions;
    let write = |writer: &mut E::Session, value: u64, lines: u64| {
        run(writer, Mode::Write, |writer| {
            for index in 0..lines {
                writer.write_word(word(index), value + index)?;
            }
            writer.commit()
        })
    };
    let name = E::NAME;
    for (round, lines) in WORDS.into_iter().cycle().take(12).enumerate() {
        let value = (round as u64 + 1) * 10_000;
        let before = write(writer, value, MOST);
        // If transactions share records, one more is in no record yet.
        let joined = write(writer, value + 1, 7);
        if round % 2 == 0 {
            writer.wait_durable(before.max(joined)).unwrap();
        }
        let expected = |index: u64| value + index + u64::from(index < 7);
        reader.begin_unfailing(Mode::Read);
        for _ in 0..4 {
            for index in 0..MOST {
                assert_eq!(reader.read_word(word(index)).unwrap(), expected(index), "{name}");
            }
        }
        for step in 0..20 {
            let ticket = write(writer, value + 100 + step, lines);
            writer.wait_durable(ticket).unwrap();
            if step == 7 {
                // Words that are not overwritten are not kept.
                engine.checkpoint().unwrap();
                assert!(engine.reclaimable() < ticket, "{name}: memory that the reader can reach");
                other.begin_unfailing(Mode::Read);
                // As long as it reads little it keeps the writer from storing.
                for _ in 0..4 {
                    assert_eq!(read_lines(other)[0], value + 107, "{name}");
                }
            }
            let index = step * 13 % MOST;
            assert_eq!(reader.read_word(word(index)).unwrap(), expected(index), "{name} {step}");
        }
        let mut bytes = vec![0; 64 * MOST as usize];
        reader.read_bytes(word(0), &mut bytes).unwrap();
        let words =
            bytes.chunks_exact(64).map(|line| u64::from_ne_bytes(*line.first_chunk().unwrap()));
        assert!(words.eq((0..MOST).map(expected)), "{name}: bytes");
        assert!(matches!(reader.write_word(word(0), 1), Err(Error::ReadOnly)), "{name}");
        assert_eq!(reader.mode(), Mode::Read, "{name}");
        let seen = reader.commit().unwrap();
        reader.wait_durable(seen).unwrap();
        assert!(reader.commit().is_err(), "{name}: it is over");
        assert_eq!(other.read_word(word(0)).unwrap(), value + 107, "{name}");
        other.abort();
        assert_eq!(read_all(reader)[0], value + 119, "{name}");
        engine.checkpoint().unwrap();
        let last = write(writer, value, 1);
        writer.wait_durable(last).unwrap();
        engine.checkpoint().unwrap();
        assert!(engine.reclaimable() >= seen, "{name}: nobody is reading");
    }
}

#[test]
fn a_long_reader_holds_no_writer_up_and_sees_one_state() {
    on_each_engine!(crash_consistent a_long_reader::<AnyMemory>());
}
