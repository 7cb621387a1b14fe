//! The interface of programs: collections by name, iterators, error types of their own, transactions as values,
//! awaited commits.

use super::traps::{on_every_engine, options};
use perdura::collections::{Bytes, Cell, HashMap, OrderedMap, Vector};
use perdura::{Error, Persist, Pool, Result, TxExt};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

type Words = HashMap<Bytes, u64>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Persist)]
enum Light {
    #[default]
    Red,
    Green {
        since: u64,
    },
}

#[test]
fn collections_are_found_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pool");
    let pool = options().create(&path).unwrap();
    let mut session = pool.session().unwrap();
    let made = session.transaction(|tx| {
        assert!(tx.open::<Words>("words")?.is_none());
        let words = tx.open_or_create::<Words>("words")?;
        words.insert(tx, b"hello", 1)?;
        tx.open_or_create::<Cell<Light>>("light")?.set(tx, Light::Green { since: 7 })?;
        Ok(words.at())
    });
    drop((session, pool));
    let pool = options().open(&path).unwrap();
    let mut session = pool.session().unwrap();
    session
        .transaction(|tx| {
            let words = tx.open_or_create::<Words>("words")?;
            assert_eq!(Some(words.at()), made.as_ref().ok().copied());
            assert_eq!(words.get(tx, b"hello")?, Some(1));
            let light = tx.open::<Cell<Light>>("light")?.expect("it was made");
            assert_eq!(light.get(tx)?, Light::Green { since: 7 });
            let wrong = tx.open_or_create::<HashMap<Bytes, i64>>("words");
            assert!(matches!(wrong, Err(Error::WrongType { .. })), "{wrong:?}");
            let text = format!("{:?}", wrong.unwrap_err());
            assert!(text.starts_with("root 'words': what is at offset"), "{text}");
            let wrong = tx.open::<OrderedMap<Bytes, u64>>("words");
            assert!(matches!(wrong, Err(Error::WrongType { .. })), "{wrong:?}");
            Ok(())
        })
        .unwrap();
    let refused = session.read(|tx| tx.open_or_create::<Words>("others"));
    assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    assert!(session.transaction(|tx| tx.delete::<Words>("words")).unwrap());
    assert!(!session.transaction(|tx| tx.delete::<Words>("words")).unwrap());
    assert!(session.transaction(|tx| tx.delete::<Cell<Light>>("light")).unwrap());
    drop(session);
    pool.close().unwrap();
    let report = perdura::check::check(&path, &|_, _, _| Ok(false)).unwrap();
    assert!(report.is_whole(), "{:?}", report.problems);
}

#[test]
fn iterators_give_each_entry_once() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let pool = options().create(folder.path().join("a.pool")).unwrap();
    let mut session = pool.session()?;
    for count in [0_u64, 1, 7, 1000] {
        session.transaction(|tx| {
            let map = OrderedMap::<u64, u64>::create(tx)?;
            let (hash, list) = (HashMap::<u64, u64>::create(tx)?, Vector::<u64>::create(tx)?);
            for key in 0..count {
                map.insert(tx, key * 2, key)?;
                hash.insert(tx, key * 2, key)?;
                list.push(tx, key * 2)?;
            }
            let all: Vec<_> = (0..count).map(|key| (key * 2, key)).collect();
            assert_eq!(map.iter(tx)?.collect::<Result<Vec<_>>>()?, all);
            let mut back = map.iter(tx)?.rev().collect::<Result<Vec<_>>>()?;
            back.reverse();
            assert_eq!(back, all);
            let part = map.range(tx, 3..=10)?.collect::<Result<Vec<_>>>()?;
            assert_eq!(
                part,
                all.iter().copied().filter(|(key, _)| (3..=10).contains(key)).collect::<Vec<_>>()
            );
            // From both ends, until they meet.
            let (mut ends, mut met) = (map.iter(tx)?, Vec::new());
            while let Some(first) = ends.next().transpose()? {
                met.push(first);
                met.extend(ends.next_back().transpose()?);
            }
            assert!(ends.next().is_none() && ends.next_back().is_none());
            met.sort_unstable();
            assert_eq!(met, all);
            let mut unordered = hash.iter(tx)?.collect::<Result<Vec<_>>>()?;
            unordered.sort_unstable();
            assert_eq!(unordered, all);
            let items = list.iter(tx)?.collect::<Result<Vec<_>>>()?;
            assert!(items.iter().eq(all.iter().map(|(key, _)| key)));
            Ok(())
        })?;
    }
    Ok(())
}

#[derive(Debug)]
enum OwnError {
    Refused(u64),
    Pool(Error),
}

impl From<Error> for OwnError {
    fn from(error: Error) -> Self {
        OwnError::Pool(error)
    }
}

#[test]
fn an_error_of_the_callers_own_rolls_back_and_comes_back() {
    on_every_engine(|pool| {
        let mut session = pool.session().unwrap();
        let count = |tx: &mut dyn perdura::Tx| tx.open_or_create::<Cell<u64>>("count");
        session.transaction(|tx| count(tx)?.set(tx, 1)).unwrap();
        {
            let refused = session.try_transaction(|tx| {
                count(tx)?.set(tx, 2)?;
                Err::<(), _>(OwnError::Refused(5))
            });
            assert!(matches!(refused, Err(OwnError::Refused(5))), "{refused:?}");
            assert_eq!(session.transaction(|tx| count(tx)?.get(tx)).unwrap(), 1);
        }
        let own = session.try_read(|tx| Ok(tx.set_root("x", perdura::Root { at: 8, kind: 1000 })?));
        let own: Result<(), OwnError> = own;
        assert!(matches!(own, Err(OwnError::Pool(Error::ReadOnly))), "{own:?}");
    });
}

#[test]
fn a_transaction_that_is_a_value_is_rolled_back_unless_it_commits() {
    on_every_engine(|pool| {
        let mut session = pool.session().unwrap();
        let mut tx = session.begin_write().unwrap();
        let words = tx.open_or_create::<Words>("words").unwrap();
        words.insert(&mut tx, b"one", 1).unwrap();
        // A failed operation does not fail the transaction.
        assert!(tx.allocate_refused());
        let ticket = tx.submit().unwrap();
        session.wait(ticket).unwrap();
        assert!(session.is_durable(ticket));
        {
            let mut tx = session.begin_write().unwrap();
            words.insert(&mut tx, b"two", 2).unwrap();
            let mut cursor = words.iter(&mut tx).unwrap().count();
            assert_eq!(cursor, 2);
            drop(tx);
            cursor = words.iter(&mut session.begin_read().unwrap()).unwrap().count();
            assert_eq!(cursor, 1);
        }
        let mut read = session.begin_read().unwrap();
        assert!(matches!(words.insert(&mut read, b"no", 0), Err(Error::ReadOnly)));
        assert_eq!(words.get(&mut read, b"one").unwrap(), Some(1));
        let mut other = pool.session().unwrap();
        assert!(matches!(other.begin_write().map(drop), Err(Error::Nested)));
        assert!(matches!(other.transaction(|_| Ok(())), Err(Error::Nested)));
        read.commit().unwrap();
        other.transaction(|_| Ok(())).unwrap();
    });
}

trait AllocateRefused {
    fn allocate_refused(&mut self) -> bool;
}

impl<T: perdura::Tx> AllocateRefused for T {
    fn allocate_refused(&mut self) -> bool {
        matches!(self.allocate(perdura::Purpose::General, 0), Err(Error::Invalid(_)))
    }
}

/// Wakes a thread that runs a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let (mut future, waker) = (pin!(future), Waker::from(Arc::new(Unpark(thread::current()))));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

async fn count(pool: &Pool, times: u64) -> Result<u64> {
    let mut last = 0;
    for _ in 0..times {
        let (count, ticket) = pool.session()?.submit(|tx| {
            let cell = tx.open_or_create::<Cell<u64>>("count")?;
            let count = cell.get(tx)? + 1;
            cell.set(tx, count)?;
            Ok(count)
        })?;
        pool.durable(ticket).await?;
        assert!(pool.session()?.is_durable(ticket));
        last = count;
    }
    Ok(last)
}

#[test]
fn commits_are_awaited() {
    on_every_engine(|pool| {
        let last = thread::scope(|scope| {
            let tasks = [1, 2, 3].map(|_| scope.spawn(|| block_on(count(pool, 20)).unwrap()));
            tasks.map(|task| task.join().unwrap()).into_iter().max()
        });
        assert_eq!(last, Some(60));
        // A future that is never polled does no harm.
        let (_, ticket) = pool.session().unwrap().submit(|_| Ok(())).unwrap();
        drop(pool.durable(ticket));
    });
}

/// A body that goes on after an operation has run out of room does not commit a change that may be half done.
#[test]
fn half_done_is_not_committed() {
    type Blobs = HashMap<Bytes, Bytes>;
    type Ordered = OrderedMap<Bytes, Bytes>;
    on_every_engine(|pool| {
        let mut session = pool.session().unwrap();
        let value = [7; 60_000];
        let (mut filled, mut refused) = (0_u32, 0);
        while refused < 20 {
            let key = (filled + refused).wrapping_mul(0x9E37_79B9).to_be_bytes();
            let mut full = false;
            let done = session.transaction(|tx| {
                let (map, ordered): (Blobs, Ordered) =
                    (tx.open_or_create("map")?, tx.open_or_create("ordered")?);
                full = false;
                for inserted in
                    [map.set(tx, &key, &value).map(drop), ordered.set(tx, &key, &value).map(drop)]
                {
                    match inserted {
                        Err(error) if error.is_full() => full = true,
                        other => other?,
                    }
                }
                Ok(())
            });
            match done {
                Ok(()) => {
                    assert!(!full);
                    filled += 1;
                }
                Err(Error::Aborted(why)) => {
                    assert!(full && why.contains("half done"), "{why}");
                    refused += 1;
                }
                Err(error) => panic!("{}: {error}", pool.engine()),
            }
        }
        // With a savepoint it can go on.
        session
            .transaction(|tx| {
                let map = tx.open_or_create::<Blobs>("map")?;
                map.remove(tx, &0_u32.to_be_bytes())?;
                let before = tx.point();
                let large = map.set(tx, b"large", &vec![0; 32 << 20]);
                assert!(large.is_err_and(|error| error.is_full()));
                tx.undo_to(before)
            })
            .unwrap();
        let mut tx = session.begin_write().unwrap();
        let map = tx.open_or_create::<Blobs>("map").unwrap();
        map.remove(&mut tx, &0x9E37_79B9_u32.to_be_bytes()).unwrap();
        assert!(map.set(&mut tx, b"large", &vec![0; 32 << 20]).is_err());
        assert!(matches!(tx.commit(), Err(Error::Aborted(_))));
        let count = session.read(|tx| tx.open_or_create::<Blobs>("map")?.len(tx)).unwrap();
        assert_eq!(count, u64::from(filled) - 1);
    });
}
