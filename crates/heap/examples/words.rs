//! Counts words, durably: the program of the README.

use perdura::collections::{Bytes, HashMap, kind};
use perdura::{Options, Root};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Options::new().open_or_create("words.pool")?;
    let mut session = pool.session()?;
    let word = std::env::args().nth(1).unwrap_or("hello".into());
    let seen = session.transaction(|tx| {
        let words = match tx.root("words")? {
            Some(root) => HashMap::<Bytes, u64>::new(root.at),
            None => {
                let words = HashMap::<Bytes, u64>::create(tx)?;
                tx.set_root("words", Root { at: words.at(), kind: kind::HASH_MAP })?;
                words
            }
        };
        let seen = words.get(tx, word.as_bytes())?.unwrap_or(0) + 1;
        words.insert(tx, word.as_bytes(), seen)?;
        Ok(seen)
    })?; // Durable from here on: pull the plug, and it is there.
    println!("{word}: {seen} times so far");
    Ok(())
}
