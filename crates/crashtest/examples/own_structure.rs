//! A custom structure (bank accounts) under the crash tester; with `-- --bug`, with a mistake that it finds.
use perdura_crashtest::prelude::*;

const ACCOUNTS: u64 = 12;

/// Words with balances, between which amounts are moved; with a bug or without.
#[derive(Clone)]
pub struct Bank(pub bool);

impl Subject for Bank {
    type Op = (u64, u64, u64);
    type Model = Vec<u64>;

    fn name(&self) -> &str {
        "bank"
    }
    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let balances = 100_u64.to_ne_bytes().repeat(ACCOUNTS as usize);
        let at = tx.new_bytes(Purpose::General, &balances)?;
        tx.set_root("bank", Root { at, kind: 1000 })
    }
    fn prepared(&self) -> Vec<u64> {
        vec![100; ACCOUNTS as usize]
    }
    fn draw(&self, random: &mut SplitMix64, _core: usize) -> Self::Op {
        (random.below(ACCOUNTS), random.below(ACCOUNTS), random.below(60))
    }
    fn apply(&self, tx: &mut dyn Tx, (from, to, amount): &Self::Op) -> Result<()> {
        let at = tx.root("bank")?.expect("it was prepared").at;
        let [from, to] = [from, to].map(|account| Ptr::<u64>::new(at + account * 8));
        let Some(rest) = tx.read(from)?.checked_sub(*amount) else { return tx.abort("too much") };
        tx.write(from, rest)?;
        let sum = tx.read(to)? + amount;
        tx.write(to, sum)?;
        // The bug: a receipt that no root leads to.
        if self.0 { tx.new_bytes(Purpose::Log, &sum.to_ne_bytes()).map(drop) } else { Ok(()) }
    }
    fn step(&self, model: &mut Vec<u64>, (from, to, amount): &Self::Op) -> bool {
        let Some(rest) = model[*from as usize].checked_sub(*amount) else { return false };
        model[*from as usize] = rest;
        model[*to as usize] += amount;
        true
    }
    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Vec<u64>>> {
        let Some(root) = tx.root("bank")? else { return Ok(None) };
        (0..ACCOUNTS)
            .map(|account| tx.read_word(root.at + account * 8))
            .collect::<Result<_>>()
            .map(Some)
    }
}

fn main() {
    match check(&Bank(std::env::args().any(|argument| argument == "--bug"))) {
        Ok(report) => println!("no failure: {report}"),
        Err(failure) => {
            println!("{failure}");
            std::process::exit(1);
        }
    }
}
