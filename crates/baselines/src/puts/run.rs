//! One library's run: puts by threads, timed; then everything is read back from the reopened store.
//!
//! A run that was stopped, or whose store does not hold the values put last, gives no figure.

use super::{Library, Put, Puts, Store};
use crate::{Error, Figure, Result};
use perdura_workloads::Progress;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;
use tempfile::TempDir;

/// The result of a run, whose answer was checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PutFigure {
    /// The puts, and how long they took.
    pub figure: Figure,
    /// Bytes that the file system has allocated to the closed store's files.
    pub bytes: u64,
}

/// Runs all `puts` on `library` in a folder of its own inside `folder`, which is removed afterwards.
///
/// # Errors
/// `Failed` if a key has another value than the one put last, if the library reported an error, or if `progress` was
/// stopped; `Io` if its folder could not be created or examined.
pub fn run(
    library: &dyn Library,
    puts: &Puts,
    folder: &Path,
    progress: &Progress,
) -> Result<PutFigure> {
    if puts.threads == 0 || puts.batch == 0 || puts.keys < u64::from(puts.threads) {
        let why = "puts need threads, a batch, and a key for each thread at least";
        return Err(Error::failed(library.name(), why));
    }
    let own = TempDir::with_prefix_in("perdura-baseline-", folder)
        .map_err(Error::io(format!("cannot make a folder in {}", folder.display())))?;
    let mut seconds = 0.0;
    library.open(own.path(), puts, &mut |store| {
        seconds = put_all(library.name(), store, puts, progress)?;
        Ok(())
    })?;
    let bytes = bytes_on_disk(own.path()).map_err(Error::io("cannot look at a store's files"))?;
    library.open(own.path(), puts, &mut |store| check(library.name(), store, puts, progress))?;
    Ok(PutFigure { figure: Figure { operations: puts.puts, seconds }, bytes })
}

/// Seconds from the first thread's first put to the end of the last thread's last one.
fn put_all(name: &str, store: &dyn Store, puts: &Puts, progress: &Progress) -> Result<f64> {
    let ready = Barrier::new(puts.threads as usize);
    let times = thread::scope(|scope| {
        let (ready, threads) = (&ready, 0..puts.threads);
        let work = |thread| move || put_share(name, store, puts, thread, ready, progress);
        let handles: Vec<_> = threads.map(|thread| scope.spawn(work(thread))).collect();
        let ended = |end: thread::Result<_>| {
            end.unwrap_or_else(|_| Err(Error::failed(name, "a thread of it panicked")))
        };
        handles.into_iter().map(|handle| ended(handle.join())).collect::<Result<Vec<_>>>()
    })?;
    let first = times.iter().map(|&(start, _)| start).min();
    let last = times.iter().map(|&(_, end)| end).max();
    let elapsed = first.zip(last).map(|(first, last)| last.duration_since(first));
    Ok(elapsed.unwrap_or_default().as_secs_f64())
}

fn put_share(
    name: &str,
    store: &dyn Store,
    puts: &Puts,
    thread: u32,
    ready: &Barrier,
    progress: &Progress,
) -> Result<(Instant, Instant)> {
    let session = store.session();
    // Even without a session: the other threads wait for this one.
    ready.wait();
    let mut session = session?;
    let mut stream = puts.stream(thread);
    let mut batch = vec![Put::default(); puts.batch.min(puts.share(thread)) as usize];
    let mut left = puts.share(thread);
    let start = Instant::now();
    while left > 0 {
        let count = left.min(puts.batch);
        let batch = &mut batch[..count as usize];
        batch.iter_mut().for_each(|put| stream.next(put));
        session.put(batch)?;
        left -= count;
        go_on(name, progress)?;
    }
    Ok((start, Instant::now()))
}

fn go_on(name: &str, progress: &Progress) -> Result<()> {
    if progress.is_stopped() { Err(Error::failed(name, "stopped")) } else { Ok(()) }
}

/// Compares each key with the value put last: with shared keys, last by one of the threads.
fn check(name: &str, store: &dyn Store, puts: &Puts, progress: &Progress) -> Result<()> {
    let mut last = vec![vec![None; puts.keys as usize]; puts.threads as usize];
    let mut put = Put::default();
    for (thread, last) in (0..).zip(&mut last) {
        let mut stream = puts.stream(thread);
        for _ in 0..puts.share(thread) {
            stream.next(&mut put);
            last[stream.number() as usize] = Some(put.value.clone());
        }
    }
    let mut session = store.session()?;
    for number in 0..puts.keys {
        let mut wanted = last.iter_mut().filter_map(|last| last[number as usize].take()).peekable();
        let got = session.get(&puts.key(number))?;
        let right = match &got {
            None => wanted.peek().is_none(),
            Some(got) => wanted.any(|wanted| wanted == *got),
        };
        if !right {
            let what = if got.is_some() { "has a wrong value" } else { "is missing" };
            return Err(Error::failed(name, format!("wrong answer: key {number} {what}")));
        }
        go_on(name, progress)?;
    }
    Ok(())
}

fn bytes_on_disk(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        // The operating system counts in blocks of 512 bytes, whatever the file system's are.
        bytes += metadata.blocks() * 512;
        if metadata.is_dir() {
            bytes += bytes_on_disk(&entry.path())?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::{Key, Session, Work};
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    const PUTS: Puts = Puts {
        puts: 500,
        keys: 100,
        value_bytes: 20,
        batch: 3,
        threads: 2,
        shared: true,
        seed: 11,
    };

    /// A fault of a store.
    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        None,
        Loses(u64),
        Alters(u64),
        Invents,
        Forgets,
    }

    /// A map in memory that does one thing wrong.
    struct Fake {
        fault: Fault,
        calls: AtomicU64,
        map: Mutex<BTreeMap<Key, Vec<u8>>>,
    }

    impl Fake {
        fn new(fault: Fault) -> Self {
            Fake { fault, calls: AtomicU64::new(0), map: Mutex::default() }
        }
    }

    impl Library for Fake {
        fn name(&self) -> &str {
            "fake"
        }

        fn settings(&self) -> &str {
            "in memory"
        }

        fn open(&self, _: &Path, puts: &Puts, work: Work<'_>) -> Result<()> {
            work(self)?;
            let mut map = self.map.lock().expect("no panic");
            match self.fault {
                Fault::Forgets => drop(map.pop_first()),
                Fault::Invents => drop(map.insert(puts.key(7), b"from nowhere".to_vec())),
                _ => {}
            }
            Ok(())
        }
    }

    impl Store for Fake {
        fn session(&self) -> Result<Box<dyn Session + '_>> {
            Ok(Box::new(self))
        }
    }

    impl Session for &Fake {
        fn put(&mut self, batch: &[Put]) -> Result<()> {
            for put in batch {
                let number = self.calls.fetch_add(1, Ordering::Relaxed);
                let mut value = put.value.clone();
                match self.fault {
                    Fault::Loses(lost) if number == lost => continue,
                    Fault::Alters(altered) if number == altered => value[19] ^= 1,
                    _ => {}
                }
                self.map.lock().expect("no panic").insert(put.key, value);
            }
            Ok(())
        }

        fn get(&mut self, key: &Key) -> Result<Option<Vec<u8>>> {
            Ok(self.map.lock().expect("no panic").get(key).cloned())
        }
    }

    fn attempt(fault: Fault, puts: &Puts) -> Result<PutFigure> {
        let folder = TempDir::new().expect("a folder");
        let outcome = run(&Fake::new(fault), puts, folder.path(), &Progress::default());
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "left behind");
        outcome
    }

    #[test]
    fn a_right_answer_has_a_figure() {
        for shared in [false, true] {
            let figure = attempt(Fault::None, &Puts { shared, ..PUTS }).expect("a right answer");
            assert_eq!(figure.figure.operations, 500);
            assert!(figure.figure.seconds > 0.0);
        }
    }

    /// With one thread the last call is the last put of its key.
    #[test]
    fn a_wrong_answer_is_an_error() {
        let single = Puts { threads: 1, ..PUTS };
        for fault in [Fault::Loses(499), Fault::Alters(499), Fault::Forgets] {
            let error = attempt(fault, &single).expect_err("a wrong answer").to_string();
            assert!(error.contains("wrong answer"), "{error}");
        }
        let few = Puts { puts: 2, keys: 100, ..PUTS };
        let error = attempt(Fault::Invents, &few).expect_err("a wrong answer").to_string();
        assert!(error.contains("key 7 has a wrong value"), "{error}");
    }

    #[test]
    fn impossible_and_stopped_runs_are_errors() {
        let no_keys = Puts { keys: 1, ..PUTS };
        let error = attempt(Fault::None, &no_keys).expect_err("no key for a thread").to_string();
        assert!(error.contains("a key for each thread"), "{error}");
        let (folder, progress) = (TempDir::new().expect("a folder"), Progress::default());
        progress.stop();
        let error = run(&Fake::new(Fault::None), &PUTS, folder.path(), &progress);
        assert!(error.expect_err("stopped").to_string().contains("stopped"));
    }
}
