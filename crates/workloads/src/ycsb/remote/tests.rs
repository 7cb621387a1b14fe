use super::*;
use crate::ycsb::score;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::thread;

/// A fault of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A byte of a value is read wrongly.
    Damaged,
    /// An update is acknowledged but not done.
    Ignored,
    /// A field is missing.
    Missing,
    /// A record is there that was not inserted.
    Added,
    /// Scans do not go by score.
    Disordered,
    /// Nothing answers.
    Silent,
}

/// Records by key, fields by name.
type All = HashMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A store in this process.
#[derive(Default)]
struct Store {
    records: Mutex<All>,
    fault: Mutex<Option<Fault>>,
}

impl Store {
    fn break_it(&self, fault: Fault) {
        *self.fault.lock().unwrap() = Some(fault);
    }

    fn fault(&self) -> Fault {
        self.fault.lock().unwrap().unwrap_or(Fault::None)
    }

    fn all(&self) -> Outcome<MutexGuard<'_, All>> {
        match self.fault() {
            Fault::Silent => Err(Failure::Remote("no answer".to_owned())),
            _ => Ok(self.records.lock().unwrap()),
        }
    }
}

impl Remote for &Store {
    fn insert(&mut self, key: &[u8], fields: &[(&[u8], &[u8])]) -> Outcome<bool> {
        let fields = fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
        Ok(self.all()?.insert(key.to_vec(), fields.collect()).is_none())
    }

    fn read(&mut self, key: &[u8]) -> Outcome<Option<Fields>> {
        let all = self.all()?;
        let Some(record) = all.get(key) else { return Ok(None) };
        let mut fields: Fields = record.clone().into_iter().collect();
        match self.fault() {
            Fault::Damaged => fields[3].1[50] ^= 1,
            Fault::Missing => drop(fields.pop()),
            _ => {}
        }
        Ok(Some(fields))
    }

    fn update(&mut self, key: &[u8], field: &[u8], value: &[u8]) -> Outcome {
        // Requests of several clients meet.
        thread::yield_now();
        let mut all = self.all()?;
        if self.fault() != Fault::Ignored {
            let record = all.get_mut(key).expect("clients know what is there");
            record.insert(field.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn scan(&mut self, start: &[u8], limit: usize) -> Outcome<Vec<(Vec<u8>, Fields)>> {
        let mut keys: Vec<Vec<u8>> = self.all()?.keys().cloned().collect();
        keys.sort_by(|a, b| score(a).total_cmp(&score(b)).then(a.cmp(b)));
        keys.retain(|key| score(key) >= score(start));
        keys.truncate(limit);
        if self.fault() == Fault::Disordered {
            keys.reverse();
        }
        keys.into_iter()
            .map(|key| Ok((key.clone(), self.read(&key)?.expect("it is there"))))
            .collect()
    }

    fn count(&mut self) -> Outcome<u64> {
        let more = u64::from(self.fault() == Fault::Added);
        Ok(self.all()?.len() as u64 + more)
    }
}

fn plan(threads: usize) -> Plan {
    Plan {
        threads,
        operations: 600,
        warm_up: 50,
        seed: 3,
        sample_every: 1,
        per_second: None,
        pinned: false,
        window: 1,
    }
}

fn loaded(store: &Store) -> Records {
    let records = Records::new(300, Shape::default()).expect("records");
    records.load(|| Ok(store), 3, &Progress::default()).expect("a load");
    records
}

fn run(letter: Letter, threads: usize, records: &Records, store: &Store) -> Outcome<Measured> {
    records.run(letter, || Ok(store), &plan(threads), &Progress::default())
}

fn check(records: &Records, store: &Store) -> Outcome {
    records.check(|| Ok(store), 2, &Progress::default())
}

#[test]
fn all_letters_run_one_after_the_other_on_the_same_records() {
    let store = Store::default();
    let records = loaded(&store);
    for threads in [1, 4] {
        for letter in Letter::ALL {
            let measured = run(letter, threads, &records, &store).expect("a run");
            assert_eq!(measured.operations, 600, "{letter}");
            assert_eq!(measured.overall.expect("latencies").samples, 600, "{letter}");
            check(&records, &store).unwrap_or_else(|failure| panic!("{letter}: {failure}"));
        }
    }
    assert!(records.count() > 300, "D and E insert");
}

#[test]
fn the_same_seed_leaves_the_same_records() {
    let after = || {
        let store = Store::default();
        let records = loaded(&store);
        for letter in Letter::ALL {
            run(letter, 1, &records, &store).expect("a run");
        }
        store.records.into_inner().unwrap()
    };
    assert!(after() == after());
}

#[test]
fn whatever_is_wrong_is_noticed() {
    for (fault, letter, hint) in [
        (Fault::Damaged, Letter::C, "field 3 of record user"),
        (Fault::Missing, Letter::B, "not whole"),
        (Fault::Disordered, Letter::E, "the scan"),
        (Fault::Silent, Letter::A, "no answer"),
    ] {
        let store = Store::default();
        let records = loaded(&store);
        store.break_it(fault);
        let complaint = run(letter, 2, &records, &store).expect_err("it is wrong").to_string();
        assert!(complaint.contains(hint), "{fault:?}: {complaint}");
    }
}

#[test]
fn whatever_is_wrong_in_the_end_is_noticed() {
    for (fault, letter, hint) in [
        (Fault::Ignored, Letter::A, "another version than was written last"),
        (Fault::Damaged, Letter::A, "field 3 of record user"),
        (Fault::Missing, Letter::A, "is gone, or not whole"),
        (Fault::Added, Letter::D, "the store counts"),
        (Fault::Silent, Letter::A, "no answer"),
    ] {
        let store = Store::default();
        let records = loaded(&store);
        run(letter, 2, &records, &store).expect("a run");
        store.break_it(fault);
        if fault == Fault::Ignored {
            // Another seed: the same one would write the same again.
            let plan = Plan { seed: 4, ..plan(2) };
            let run = records.run(letter, || Ok(&store), &plan, &Progress::default());
            run.expect("reads find whole records");
        }
        let complaint = check(&records, &store).expect_err("it is wrong").to_string();
        assert!(complaint.contains(hint), "{fault:?}: {complaint}");
    }
    let store = Store::default();
    let records = loaded(&store);
    store.records.lock().unwrap().remove(Name::new(Order::Hashed.identity(7)).as_bytes());
    let complaint = check(&records, &store).expect_err("a record is gone").to_string();
    assert!(complaint.contains("is gone"), "{complaint}");
}

#[test]
fn a_store_that_has_records_already_is_not_loaded() {
    let store = Store::default();
    loaded(&store);
    let again = Records::new(300, Shape::default()).expect("records");
    let complaint = again.load(|| Ok(&store), 1, &Progress::default()).expect_err("they are there");
    assert!(complaint.to_string().contains("was there already"), "{complaint}");
}

#[test]
fn it_ends_when_asked_to() {
    let (store, empty, progress) = (Store::default(), Store::default(), Progress::default());
    let records = loaded(&store);
    progress.stop();
    let load = Records::new(3_000, Shape::default()).expect("records");
    assert!(matches!(load.load(|| Ok(&empty), 1, &progress), Err(Failure::Stopped)));
    let measured = records.run(Letter::C, || Ok(&store), &plan(1), &progress).expect("no failure");
    assert!(measured.operations < 600);
}

#[test]
fn bad_parameters_are_refused() {
    assert!(Records::new(0, Shape::default()).is_err());
    assert!(Records::new(1, Shape { fields: 1, field_bytes: 7 }).is_err());
    let store = Store::default();
    let windowed = Plan { window: 2, ..plan(1) };
    let refused = loaded(&store).run(Letter::A, || Ok(&store), &windowed, &Progress::default());
    assert!(refused.expect_err("a window").to_string().contains("window of 1"));
}
