//! Swaps words of an array, and nothing else: a program whose instructions and stores can be counted.
//!
//!     cargo run --release --example swaps -- FILE ENGINE SWAPS TRANSACTIONS handle
//!
//! The last word says how its transactions run: `handle`, as any program's; `static`, by a visitor that knows the
//! engine.

use perdura::{
    Domain, Engine, EngineKind, Heap, Mapped, Memory as _, Options, Purpose, Result, Tx, Visitor,
};

const WORD: u64 = 8;
/// Words in the array.
const ENTRIES: u64 = 4096;

/// A transaction of some swaps.
#[inline]
fn swap<T: Tx + ?Sized>(tx: &mut T, pairs: &[(u64, u64)]) -> Result<()> {
    for &(a, b) in pairs {
        let (x, y) = (tx.read_word(a)?, tx.read_word(b)?);
        tx.write_word(a, y)?;
        tx.write_word(b, x)?;
    }
    Ok(())
}

/// Where the words of each swap are.
struct Pairs {
    random: u64,
    array: u64,
    pairs: Vec<(u64, u64)>,
}

impl Pairs {
    fn new(array: u64, swaps: usize) -> Self {
        Pairs { random: 88_172_645_463_325_252, array, pairs: vec![(0, 0); swaps] }
    }

    #[inline]
    fn next(&mut self) -> &[(u64, u64)] {
        for pair in &mut self.pairs {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let (a, b) = (self.random % ENTRIES, (self.random >> 32) % ENTRIES);
            *pair = (self.array + a * WORD, self.array + b * WORD);
        }
        &self.pairs
    }
}

/// Runs the transactions with the engine known.
struct Static(Pairs, u64);

impl Visitor for Static {
    type Output = Result<()>;

    fn visit<E: Engine<Mapped>>(self, heap: &Heap<Mapped, E>) -> Result<()> {
        let (Static(mut pairs, count), mut session) = (self, heap.session()?);
        for _ in 0..count {
            let pairs = pairs.next();
            session.transaction(|tx| swap(tx, pairs))?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "swaps FILE ENGINE SWAPS TRANSACTIONS handle|static";
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [path, engine, swaps, count, how] = given.as_slice() else { return Err(usage.into()) };
    let (engine, swaps, count) = (engine.parse::<EngineKind>()?, swaps.parse()?, count.parse()?);
    // Of ordinary persistent memory, whatever the file is on: what is counted is the same then.
    let options = Options::new().engine(engine).size(16 << 20).domain(Some(Domain::Transient));
    let pool = options.create(path)?;
    let mut handle = pool.session()?;
    let array = handle.transaction(|tx| {
        let array = tx.allocate(Purpose::General, ENTRIES * WORD)?.at();
        (0..ENTRIES).try_for_each(|index| tx.write_word(array + index * WORD, index))?;
        Ok(array)
    })?;
    let mut pairs = Pairs::new(array, swaps);
    match how.as_str() {
        "static" => pool.visit(Static(pairs, count))?,
        _ => {
            for _ in 0..count {
                let pairs = pairs.next();
                handle.transaction(|tx| swap(tx, pairs))?;
            }
        }
    }
    let sum: u64 =
        handle.read(|tx| (0..ENTRIES).map(|index| tx.read_word(array + index * WORD)).sum())?;
    assert_eq!(sum, ENTRIES * (ENTRIES - 1) / 2, "a permutation of the indices");
    println!("{count} transactions of {swaps} swaps; memory of {} bytes", pool.memory().len());
    Ok(())
}
