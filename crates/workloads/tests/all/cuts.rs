//! The operations of the workloads, one at a time, with the power cut inside them: afterwards the
//! structure is whole, with its contents from before the operation or after it.

use crate::heap;
use perdura::{AnyHeap, AnyTx, EngineKind, Result, Tx, roots};
use perdura_memory::reference::Cut;
use perdura_memory::{Domain, Reference};
use perdura_workloads::bptree::BpTree;
use perdura_workloads::check_root;
use perdura_workloads::churn::{self, Change};
use perdura_workloads::hash::Hash;
use perdura_workloads::pages;
use perdura_workloads::random::Random;
use perdura_workloads::rbtree::RbTree;
use perdura_workloads::records::{Plain, Records, Rooted};
use perdura_workloads::sdg::Graph;
use perdura_workloads::toggle::{self, KeySet};
use std::marker::PhantomData;
use std::sync::Arc;

const LIMIT: u64 = 384 << 10;
const DOMAINS: [Domain; 2] = [Domain::Transient, Domain::Media];
/// Operations that are cut, and about this many cuts in each.
const OPERATIONS: u64 = 4;
const CUTS: u64 = 6;

/// A program whose operations are a transaction each.
trait Program {
    /// Makes the structure that the operations change.
    fn make(&self, tx: &mut impl Tx) -> Result<()>;

    /// Does the operation that follows from the seed.
    fn operate(&self, tx: &mut impl Tx, seed: u64) -> Result<()>;

    /// Checks everything, and returns the contents.
    fn contents(&self, tx: &mut impl Tx) -> Result<Vec<u64>>;
}

/// Where the only root points.
fn root(tx: &mut impl Tx) -> Result<u64> {
    let all = roots::all(tx)?;
    let root = all.first().expect("it was made").root;
    assert!(check_root(tx, root, &mut |_| Ok(()))?);
    Ok(root.at)
}

/// Toggles of a few keys.
struct Toggled<K> {
    entries: u64,
    of: PhantomData<K>,
}

impl<K: KeySet> Program for Toggled<K> {
    fn make(&self, tx: &mut impl Tx) -> Result<()> {
        let set: K = toggle::create(tx, self.entries, 2 * self.entries)?;
        let keys: Vec<u64> = (0..self.entries).map(|key| 2 * key).collect();
        toggle::toggle(tx, set, &keys)
    }

    fn operate(&self, tx: &mut impl Tx, seed: u64) -> Result<()> {
        let set = K::open(root(tx)?);
        let mut random = Random::new(seed, 0);
        toggle::toggle(tx, set, &[(); 3].map(|()| random.below(2 * self.entries)))
    }

    fn contents(&self, tx: &mut impl Tx) -> Result<Vec<u64>> {
        let (set, mut words) = (K::open(root(tx)?), Vec::new());
        set.check(tx, &mut |_| Ok(()), &mut |key, value| {
            words.extend([key, value]);
            Ok(())
        })?;
        Ok(words)
    }
}

/// Changes of blocks in a few slots.
struct Churned {
    slots: u64,
}

impl Program for Churned {
    fn make(&self, tx: &mut impl Tx) -> Result<()> {
        churn::create(tx, self.slots).map(drop)
    }

    fn operate(&self, tx: &mut impl Tx, seed: u64) -> Result<()> {
        let (header, mut random) = (root(tx)?, Random::new(seed, 0));
        churn::change(tx, header, &[(); 3].map(|()| Change::draw(&mut random, 0, self.slots)))
    }

    /// The slots; the blocks' bytes follow from them, and have been compared.
    fn contents(&self, tx: &mut impl Tx) -> Result<Vec<u64>> {
        let header = root(tx)?;
        (0..=2 * self.slots).map(|word| tx.read_word(header + word * 8)).collect()
    }
}

/// Rows replaced in a few pages.
struct Paged {
    rows: u64,
}

impl Program for Paged {
    fn make(&self, tx: &mut impl Tx) -> Result<()> {
        let file = pages::create(tx, self.rows)?;
        pages::initial(self.rows).try_for_each(|mut page| page.write(tx, file))
    }

    fn operate(&self, tx: &mut impl Tx, seed: u64) -> Result<()> {
        let (file, mut random) = (root(tx)?, Random::new(seed, 0));
        pages::replace(tx, file, &[(); 3].map(|()| random.below(self.rows)))
    }

    fn contents(&self, tx: &mut impl Tx) -> Result<Vec<u64>> {
        let (file, mut words) = (root(tx)?, Vec::new());
        let changes = pages::check(tx, file, &mut |key, version| {
            words.extend([key, version]);
            Ok(())
        })?;
        words.push(changes);
        Ok(words)
    }
}

/// Records that gain, change and lose fields and members.
struct Recorded;

impl Recorded {
    const KEYS: [&[u8]; 3] = [b"user1", b"user2", b"user3"];
    const INDEX: &[u8] = b"_indices";

    fn write(tx: &mut dyn Tx, records: Plain, key: &[u8], random: &mut Random) -> Result<()> {
        let (short, long) = (random.word().to_le_bytes(), [random.word() as u8; 100]);
        records.set_fields(tx, key, &[(b"field0", &short), (b"field1", &long)])?;
        records.add(tx, Self::INDEX, random.below(100) as f64, key).map(drop)
    }
}

impl Program for Recorded {
    fn make(&self, tx: &mut impl Tx) -> Result<()> {
        let (records, mut random) = (Plain::create(tx)?, Random::new(0, 0));
        Self::KEYS.iter().try_for_each(|key| Self::write(tx, records, key, &mut random))
    }

    /// One key is written, and one is removed, if it is there.
    fn operate(&self, tx: &mut impl Tx, seed: u64) -> Result<()> {
        let (records, mut random) = (Plain::find(tx)?.expect("records"), Random::new(seed, 1));
        let key = Self::KEYS[random.below(3) as usize];
        Self::write(tx, records, key, &mut random)?;
        let key = Self::KEYS[random.below(3) as usize];
        if records.remove(tx, key)? {
            assert!(records.take(tx, Self::INDEX, key)?);
        }
        Ok(())
    }

    fn contents(&self, tx: &mut impl Tx) -> Result<Vec<u64>> {
        root(tx)?;
        let (records, mut words) = (Plain::find(tx)?.expect("records"), Vec::new());
        records.range(tx, Self::INDEX, f64::NEG_INFINITY, &mut |score, member| {
            words.extend([score.to_bits(), u64::from(member[4])]);
            true
        })?;
        for key in Self::KEYS {
            let mut fields = Vec::new();
            records.fields(tx, key, &mut |field, value| fields.push((field.to_vec(), value[0])))?;
            fields.sort();
            words.extend(
                fields
                    .into_iter()
                    .map(|(field, value)| u64::from(field[5]) << 8 | u64::from(value)),
            );
        }
        Ok(words)
    }
}

/// A pool that has recovered, and its memory.
type Opened = (Arc<Reference>, Box<dyn AnyHeap>);

fn open(engine: EngineKind, image: &[u8], domain: Domain) -> Opened {
    let memory = Arc::new(Reference::from_image(image, domain).with_limit(LIMIT));
    (memory.clone(), heap::open(engine, memory))
}

fn contents((_, heap): &Opened, program: &impl Program) -> Vec<u64> {
    let mut session = heap.session().expect("a session");
    session.read(|tx| program.contents(&mut AnyTx::new(tx))).expect("a whole structure")
}

/// Does the operation, with the power cut after this many events. Returns the image, and the events.
fn operate(
    (memory, heap): &Opened,
    program: &impl Program,
    seed: u64,
    cut: Option<(u64, Cut)>,
) -> (Vec<u8>, u64) {
    let mut session = heap.session().expect("a session");
    let before = memory.events();
    let (after, cut) = cut.unwrap_or((u64::MAX, Cut::None));
    memory.cut_after(after);
    let operation = |tx: &mut dyn Tx| program.operate(&mut AnyTx::new(tx), seed);
    session.transaction(operation).expect("an operation");
    (memory.power_cut(cut), memory.events() - before)
}

fn outlives_cuts(engine: EngineKind, domain: Domain, program: &impl Program) {
    let memory = Arc::new(Reference::new(LIMIT, domain));
    let heap = heap::create(engine, memory.clone(), Some(96 << 10));
    let make = |tx: &mut dyn Tx| program.make(&mut AnyTx::new(tx));
    heap.session().unwrap().transaction(make).expect("it is made");
    let mut image = memory.power_cut(Cut::None);
    for seed in 0..OPERATIONS {
        let heap = open(engine, &image, domain);
        let before = contents(&heap, program);
        let (next, events) = operate(&heap, program, seed, None);
        let after = contents(&heap, program);
        for event in (seed % 3..events).step_by((events / CUTS).max(1) as usize) {
            for cut in [Cut::None, Cut::All, Cut::Seed(event)] {
                let heap = open(engine, &image, domain);
                let (left, _) = operate(&heap, program, seed, Some((event, cut)));
                let found = contents(&open(engine, &left, domain), program);
                let told = format!("{engine} on {domain}, operation {seed}, event {event}");
                assert!(found == before || found == after, "{told}, {cut:?}");
            }
        }
        assert_eq!(contents(&open(engine, &next, domain), program), after, "it was acknowledged");
        image = next;
    }
}

fn outlives_cuts_everywhere(program: &impl Program) {
    for domain in DOMAINS {
        for engine in EngineKind::ALL.into_iter().filter(|engine| engine.is_crash_consistent()) {
            outlives_cuts(engine, domain, program);
        }
    }
}

#[test]
fn a_hash_table() {
    outlives_cuts_everywhere(&Toggled::<Hash> { entries: 20, of: PhantomData });
}

#[test]
fn a_red_black_tree() {
    outlives_cuts_everywhere(&Toggled::<RbTree> { entries: 30, of: PhantomData });
}

/// Two leaves, about to be merged or split.
#[test]
fn a_b_plus_tree() {
    outlives_cuts_everywhere(&Toggled::<BpTree> { entries: 201, of: PhantomData });
}

#[test]
fn a_graph() {
    outlives_cuts_everywhere(&Toggled::<Graph> { entries: 20, of: PhantomData });
}

#[test]
fn pages_of_rows() {
    outlives_cuts_everywhere(&Paged { rows: 40 });
}

#[test]
fn churning_blocks() {
    outlives_cuts_everywhere(&Churned { slots: 4 });
}

#[test]
fn records() {
    outlives_cuts_everywhere(&Recorded);
}
