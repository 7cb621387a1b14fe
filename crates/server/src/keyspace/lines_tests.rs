//! Which lines an insertion and an update of a record write, object by object: the records are
//! YCSB's, a hash of ten fields of 100 bytes and a member of an index.
//!
//! `cargo test -p perdura-server lines -- --nocapture` prints the tables of docs/collections.md.

use super::zset::SortedSet;
use super::{Database, header};
use crate::Keyspace;
use perdura::collections::Visit;
use perdura::testing::{TracedTx, Writes};
use perdura::{Domain, EngineKind, Handle, Options, Pool, Result, Tx};
use std::collections::BTreeMap;

const LOADED: u64 = 20_000;
const COUNTED: u64 = 4_000;
const INDEX: &[u8] = b"_indices";

/// A word that looks random.
fn scattered(number: u64) -> u64 {
    let word = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ word >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    word ^ word >> 32
}

/// A key of 23 bytes, as most of YCSB's are.
fn key(record: u64) -> Vec<u8> {
    format!("user{:019}", scattered(record) >> 1).into_bytes()
}

/// As spread over all `i32`s as a Java hash code.
fn score(record: u64) -> f64 {
    f64::from(scattered(!record) as i32)
}

fn value(seed: u64) -> Vec<u8> {
    (0..100u64).map(|byte| scattered(seed << 8 | byte) as u8).collect()
}

fn insert(keyspace: Keyspace, tx: &mut dyn Tx, record: u64) -> Result<()> {
    let pairs: Vec<_> =
        (0..10).map(|field| (format!("field{field}"), value(record << 4 | field))).collect();
    let pairs: Vec<_> = pairs.iter().map(|(f, v)| (f.as_bytes(), v.as_slice())).collect();
    keyspace.set_fields(tx, &key(record), &pairs)?;
    keyspace.add(tx, INDEX, score(record), &key(record)).map(drop)
}

fn update(keyspace: Keyspace, tx: &mut dyn Tx, number: u64) -> Result<()> {
    let field = format!("field{}", scattered(number) % 10);
    let pair = (field.as_bytes(), &value(!number)[..]);
    keyspace.set_fields(tx, &key(scattered(number) % LOADED), &[pair])
}

/// The blocks that a check reports.
fn blocks(
    tx: &mut dyn Tx,
    check: impl FnOnce(&mut dyn Tx, &mut Visit<'_>) -> Result<()>,
) -> Result<Vec<u64>> {
    let mut blocks = Vec::new();
    check(tx, &mut |at| {
        blocks.push(at);
        Ok(())
    })?;
    Ok(blocks)
}

/// Blocks and their kinds, by their offsets.
struct Owners(BTreeMap<u64, &'static str>);

impl Owners {
    fn find(tx: &mut dyn Tx) -> Result<Self> {
        let at = header::find(tx)?.expect("our keyspace").expect("a keyspace");
        let (db, mut owners) = (Database::new(at, 0), BTreeMap::from([(at, "keyspace header")]));
        let keys = db.keys(tx)?.expect("keys");
        let mut own =
            |what, blocks: Vec<u64>| owners.extend(blocks.into_iter().map(|at| (at, what)));
        own("keys: buckets", blocks(tx, |tx, visit| keys.check(tx, visit))?);
        own("keys: header", vec![keys.at()]);
        let index = db.find(tx, INDEX)?.expect("the index");
        let set = SortedSet::load(tx, index.entry)?;
        own("index: block", vec![set.at()]);
        own("index, scores: buckets", blocks(tx, |tx, visit| set.scores.check(tx, visit))?);
        own("index, scores: header", vec![set.scores.at()]);
        for at in blocks(tx, |tx, visit| set.order.check(tx, visit))? {
            let leaf = tx.read_word(at)? & 0xFF == 0;
            own(if leaf { "index, order: leaves" } else { "index, order: inner" }, vec![at]);
        }
        own("index, order: header", vec![set.order.at()]);
        Ok(Owners(owners))
    }

    fn of(&self, tx: &mut dyn Tx, line: u64) -> Result<&'static str> {
        // A block of half a line may be the line's second.
        let Some(extent) = tx.extent(line)?.or(tx.extent(line + 32)?) else { return Ok("freed") };
        Ok(self.0.get(&extent.at).copied().unwrap_or("records"))
    }
}

/// Means by operation.
#[derive(Clone, Copy, Default)]
struct Mean {
    written: f64,
    fresh: f64,
    words: f64,
}

struct Costs {
    by_owner: BTreeMap<&'static str, Mean>,
    data: f64,
    log: f64,
}

struct Bench {
    pool: Pool,
    session: Handle,
    keyspace: Keyspace,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(engine: EngineKind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().engine(engine).size(256 << 20);
        let pool =
            options.domain(Some(Domain::Transient)).create(folder.path().join("pool")).unwrap();
        let mut session = pool.session().unwrap();
        let keyspace = session.transaction(|tx| Keyspace::open_seeded(tx, 7)).unwrap();
        for first in (0..LOADED).step_by(50) {
            let body = |tx: &mut dyn Tx| {
                (first..first + 50).try_for_each(|record| insert(keyspace, tx, record))
            };
            session.transaction(|tx| body(tx)).unwrap();
        }
        Bench { pool, session, keyspace, _folder: folder }
    }

    fn run(
        &mut self,
        numbers: std::ops::Range<u64>,
        operation: fn(Keyspace, &mut dyn Tx, u64) -> Result<()>,
    ) -> Costs {
        let keyspace = self.keyspace;
        let count = (numbers.end - numbers.start) as f64;
        self.pool.checkpoint().unwrap();
        let before = self.session.counters();
        let mut all = Vec::new();
        for number in numbers {
            let mut writes = Writes::default();
            let mut body = |tx: &mut dyn Tx| {
                writes = Writes::default();
                operation(keyspace, &mut TracedTx::new(tx, &mut writes), number)
            };
            self.session.transaction(|tx| body(tx)).unwrap();
            all.push(writes);
        }
        let after = self.session.counters();
        let each = |after: u64, before: u64| (after - before) as f64 / count;
        let by_owner = self.session.read(|tx| attribute(tx, &all)).unwrap();
        Costs {
            by_owner,
            data: each(after.write_backs_data, before.write_backs_data),
            log: each(after.write_backs_log, before.write_backs_log),
        }
    }
}

fn attribute(tx: &mut dyn Tx, all: &[Writes]) -> Result<BTreeMap<&'static str, Mean>> {
    let (owners, mut sums) = (Owners::find(tx)?, BTreeMap::<_, Mean>::new());
    let each = 1.0 / all.len() as f64;
    for writes in all {
        for (&line, words) in &writes.0 {
            let sum = sums.entry(owners.of(tx, line)?).or_default();
            sum.words += f64::from(words.written.count_ones()) * each;
            *(if words.written == 0 { &mut sum.fresh } else { &mut sum.written }) += each;
        }
    }
    Ok(sums)
}

fn show(what: &str, costs: &Costs) {
    println!("{what}: {:.2} data lines, {:.2} log lines", costs.data, costs.log);
    let mut rest = costs.data;
    for (owner, mean) in &costs.by_owner {
        let Mean { written, fresh, words } = mean;
        println!("  {owner:<24} written {written:5.2} ({words:5.2} words), fresh {fresh:5.2}");
        rest -= written + fresh;
    }
    // An engine that writes data back later has no rest to speak of.
    if rest > 0.005 {
        println!("  {:<24} written {rest:5.2}", "page table, and twice");
    }
}

/// The maximum number of lines that an insertion and an update may write with an engine: data and log each.
fn hold(engine: EngineKind, insertion: [f64; 2], updating: [f64; 2]) {
    let mut bench = Bench::new(engine);
    let inserted = bench.run(LOADED..LOADED + COUNTED, insert);
    show(&format!("{}, insert", engine.name()), &inserted);
    let updated = bench.run(0..COUNTED, update);
    show(&format!("{}, update", engine.name()), &updated);
    // 1,088 bytes, and nothing around them.
    assert!((inserted.by_owner["records"].fresh - 17.0).abs() < 1e-6);
    for (costs, [data, log]) in [(inserted, insertion), (updated, updating)] {
        assert!(costs.data <= data && costs.log <= log, "{:.2}, {:.2}", costs.data, costs.log);
    }
}

#[test]
fn records_write_few_lines_with_undo() {
    hold(EngineKind::Undo, [34.6, 6.8], [2.45, 4.0]);
}

#[test]
fn records_write_few_lines_with_redo() {
    hold(EngineKind::Redo, [17.2, 8.3], [0.0, 3.0]);
}

/// Lines that an operation on a list writes, in the mean.
fn list_lines(
    session: &mut Handle,
    mut operation: impl FnMut(&mut dyn Tx, u64) -> Result<()>,
) -> f64 {
    let mut lines = 0;
    for number in 0..COUNTED {
        let mut writes = Writes::default();
        let mut body = |tx: &mut dyn Tx| {
            writes = Writes::default();
            operation(&mut TracedTx::new(tx, &mut writes), number)
        };
        session.transaction(|tx| body(tx)).unwrap();
        lines += writes.0.len();
    }
    lines as f64 / COUNTED as f64
}

#[test]
fn ends_of_lists_write_few_lines() {
    use crate::End;
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new().size(64 << 20).domain(Some(Domain::Transient));
    let pool = options.create(folder.path().join("pool")).unwrap();
    let mut session = pool.session().unwrap();
    let keyspace = session.transaction(|tx| Keyspace::open_seeded(tx, 7)).unwrap();
    let element = |number: u64| format!("an element: {number:012}").into_bytes();
    for number in 0..LOADED {
        let element = element(number);
        session.transaction(|tx| keyspace.push(tx, INDEX, End::Right, &element)).unwrap();
    }
    for end in [End::Left, End::Right] {
        let pushed =
            list_lines(&mut session, |tx, number| keyspace.push(tx, INDEX, end, &element(number)));
        let popped = list_lines(&mut session, |tx, _| keyspace.pop(tx, INDEX, end).map(drop));
        println!("{end:?}: a push writes {pushed:.2} lines, a pop {popped:.2}");
        // The header's, the chunk's first, and those of the element.
        assert!(pushed < 3.6 && popped < 2.2, "{end:?}: {pushed} and {popped}");
    }
}
