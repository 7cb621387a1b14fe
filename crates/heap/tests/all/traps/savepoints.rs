//! Savepoints undo allocations too, and only valid ones undo anything; fresh memory is memory that this transaction
//! has allocated.

use super::{is_misuse, on_every_engine};
use perdura::{Error, Mode, Purpose, Root, Tx, TxExt};

/// A bug of an earlier pair of savepoints, which did not restore the allocator's own state: the slot was free for the
/// allocator and taken in the page table, or vice versa.
#[test]
fn allocations_and_frees_are_undone_with_the_writes() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        let a = handle.transaction(|tx| tx.new_bytes(Purpose::General, &[1; 40])).unwrap();
        handle
            .transaction(|tx| {
                let point = tx.point();
                tx.free(a)?;
                tx.new_bytes(Purpose::General, &[2; 40])?;
                tx.undo_to(point)
            })
            .unwrap();
        // With a slot both free and taken, this failed with `free slot that is taken`.
        for _ in 0..3 {
            let many = |tx: &mut dyn Tx| {
                (0..70).try_for_each(|_| tx.new_bytes(Purpose::General, &[3; 40]).map(drop))
            };
            handle.transaction(|tx| many(tx)).unwrap();
        }
        let mut bytes = [0; 40];
        handle.read(|tx| tx.read_bytes(a, &mut bytes)).unwrap();
        assert_eq!(bytes, [1; 40]);
    });
}

#[test]
fn a_void_savepoint_undoes_nothing() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        let earlier = handle
            .transaction(|tx| {
                tx.new_bytes(Purpose::General, b"earlier.")?;
                Ok(tx.point())
            })
            .unwrap();
        let mut other = pool.session().unwrap();
        let others = other.transaction(|tx| Ok(tx.point())).unwrap();
        let at = handle
            .transaction(|tx| {
                let at = tx.new_bytes(Purpose::General, b"kept....")?;
                tx.set_root("kept", Root { at, kind: 1000 })?;
                is_misuse(&tx.undo_to(earlier));
                is_misuse(&tx.undo_to(others));
                let first = tx.point();
                tx.write_bytes(at, b"first...")?;
                let second = tx.point();
                tx.write_bytes(at, b"second..")?;
                tx.undo_to(first)?;
                tx.write_bytes(at, b"third...")?;
                // It was made after `first`, so it is void now.
                is_misuse(&tx.undo_to(second));
                let third = tx.point();
                tx.write_bytes(at, b"fourth..")?;
                tx.undo_to(third)?;
                // And again.
                tx.write_bytes(at, b"fifth...")?;
                tx.undo_to(third)?;
                Ok(at)
            })
            .unwrap();
        let mut bytes = [0; 8];
        handle.read(|tx| tx.read_bytes(at, &mut bytes)).unwrap();
        assert_eq!(&bytes, b"third...");
        assert_eq!(handle.read(|tx| tx.root("kept")).unwrap().map(|root| root.at), Some(at));
    });
}

#[test]
fn only_memory_of_this_transaction_is_fresh() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        let old = handle
            .transaction(|tx| {
                let new = tx.allocate(Purpose::Value, 3000)?;
                assert!(new.bytes() >= 3000);
                tx.write_fresh(new, 0, &[1; 3000])?;
                tx.set_root("old", Root { at: new.at(), kind: 1000 })?;
                Ok(new)
            })
            .unwrap();
        let mut other = pool.session().unwrap();
        other
            .transaction(|tx| {
                is_misuse(&tx.write_fresh(old, 0, &[2; 8]));
                let own = tx.allocate(Purpose::Value, 100)?;
                is_misuse(&tx.write_fresh(old, 0, &[2; 8]));
                is_misuse(&tx.write_fresh(own, 0, &vec![2; own.bytes() as usize + 1]));
                is_misuse(&tx.write_fresh(own, own.bytes(), &[2; 1]));
                is_misuse(&tx.write_fresh(own, u64::MAX, &[2; 1]));
                is_misuse(&tx.write_fresh(own, u64::MAX - 7, &[2; 16]));
                is_misuse(&tx.write_fresh(own, 4, &[2; 8]));
                tx.write_fresh(own, 8, &vec![2; own.bytes() as usize - 8])
            })
            .unwrap();
        // Nor in a later transaction of the same session.
        handle
            .transaction(|tx| {
                is_misuse(&tx.write_fresh(old, 0, &[3; 8]));
                tx.allocate(Purpose::Value, 3000)?;
                is_misuse(&tx.write_fresh(old, 0, &[3; 8]));
                Ok(())
            })
            .unwrap();
        let mut bytes = vec![0; 3000];
        handle.read(|tx| tx.read_bytes(old.at(), &mut bytes)).unwrap();
        assert_eq!(bytes, [1; 3000]);
        handle.begin(Mode::Read).unwrap();
        is_misuse(&handle.within(|tx| tx.write_fresh(old, 0, &[4; 8])));
        handle.abort();
    });
}

/// Stores without the log cannot be undone, so they are not used where they might have to be.
#[test]
fn fresh_memory_is_undone_too() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        let at = handle
            .transaction(|tx| {
                let new = tx.allocate(Purpose::Value, 8000)?;
                tx.write_fresh(new, 0, &[1; 8000])?;
                let point = tx.point();
                tx.write_fresh(new, 0, &[2; 8000])?;
                let gone = tx.allocate(Purpose::Value, 8000)?;
                tx.write_fresh(gone, 0, &[3; 8000])?;
                tx.undo_to(point)?;
                let refused = tx.write_fresh(gone, 0, &[4; 8000]);
                assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
                Ok(new.at())
            })
            .unwrap();
        let mut bytes = vec![0; 8000];
        handle.read(|tx| tx.read_bytes(at, &mut bytes)).unwrap();
        assert_eq!(bytes, [1; 8000], "{}", pool.engine());
    });
}
