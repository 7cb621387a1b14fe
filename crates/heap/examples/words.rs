//! Counts words, durably: the program of the README.

use perdura::collections::{Bytes, HashMap};
use perdura::{Options, TxExt};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Options::new().open_or_create("words.pool")?;
    let word = std::env::args().nth(1).unwrap_or("hello".into());
    let seen = pool.session()?.transaction(|tx| {
        let words = tx.open_or_create::<HashMap<Bytes, u64>>("words")?;
        let seen = words.get(tx, word.as_bytes())?.unwrap_or(0) + 1;
        words.insert(tx, word.as_bytes(), seen)?;
        Ok(seen)
    })?; // Durable from here on: pull the plug, and it is there.
    println!("{word}: {seen} times so far");
    Ok(())
}
