//! Collections opened with other types than they were created with.

use super::{is_damage, is_misuse, on_every_engine, options};
use perdura::collections::{
    Blob, Bytes, HashMap, OrderedMap, Pair, Total, Vector, check_root, kind,
};
use perdura::{Error, Persist, Purpose, Result, Root, Tx, TxExt};

/// Two types of the same layout.
macro_rules! money {
    ($($name:ident $stable:literal)*) => {
        $(
            #[derive(Clone, Copy, Debug, PartialEq, Persist)]
            #[persist(name = $stable)]
            struct $name(i64);
        )*
    };
}

money!(Euros "test.Euros" Cents "test.Cents" AlsoEuros "test.Euros");

#[track_caller]
fn wrong_type<T: std::fmt::Debug>(result: &Result<T>, expected: &str) {
    is_misuse(result);
    let error = result.as_ref().expect_err("a mistake");
    assert!(matches!(error, Error::WrongType { .. }), "{error:?}");
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn types_of_one_size_are_told_apart() {
    on_every_engine(|pool| {
        let body = |tx: &mut dyn Tx| {
            let at = HashMap::<u64, [u64; 4]>::create(tx)?.at();
            HashMap::<u64, [u64; 4]>::new(at).insert(tx, 1, [2; 4])?;
            let other = HashMap::<i64, [f32; 8]>::new(at);
            wrong_type(&other.get(tx, 1), "HashMap<i64, [f32; 8]>");
            wrong_type(&other.insert(tx, 1, [0.0; 8]), "HashMap<i64, [f32; 8]>");
            wrong_type(&other.destroy(tx), "HashMap<i64, [f32; 8]>");
            wrong_type(&HashMap::<u64, [u64; 4], false>::new(at).len(tx), "[u64; 4], false>");
            wrong_type(&HashMap::<[u64; 4], u64>::new(at).len(tx), "HashMap<[u64; 4], u64>");
            wrong_type(&HashMap::<Bytes, u64>::new(at).len(tx), "HashMap<Bytes<2>, u64>");
            wrong_type(&OrderedMap::<u64, [u64; 4]>::new(at).len(tx), "OrderedMap<u64, [u64; 4]>");
            wrong_type(&Vector::<u64>::new(at).len(tx), "Vector<u64>");
            wrong_type(&Blob::new(at).len(tx), "byte string");
            assert_eq!(HashMap::<u64, [u64; 4]>::new(at).get(tx, 1)?, Some([2; 4]));

            let at = OrderedMap::<Pair<Total, Bytes<3>>, (), true>::create(tx)?.at();
            let other = OrderedMap::<Pair<f64_bits::Bits, Bytes<3>>, (), true>::new(at);
            wrong_type(&other.len(tx), "OrderedMap<Pair<test.Bits, Bytes<3>>, (), true>");
            wrong_type(&HashMap::<u64, u64>::new(at).len(tx), "HashMap<u64, u64>");

            let at = Vector::<u32>::create(tx)?.at();
            Vector::<u32>::new(at).push(tx, 7)?;
            wrong_type(&Vector::<f32>::new(at).get(tx, 0), "Vector<f32>");
            wrong_type(&Vector::<u64>::new(at).push(tx, 0), "Vector<u64>");
            wrong_type(&Vector::<[u8; 4]>::new(at).get(tx, 0), "Vector<[u8; 4]>");
            assert_eq!(Vector::<u32>::new(at).get(tx, 0)?, Some(7));

            let at = Blob::create(tx, Purpose::General, b"text")?.at();
            wrong_type(&HashMap::<u64, u64>::new(at).len(tx), "HashMap<u64, u64>");
            wrong_type(&Vector::<u64>::new(at).len(tx), "Vector<u64>");
            Ok(())
        };
        pool.session().unwrap().transaction(|tx| body(tx)).unwrap();
    });
}

mod f64_bits {
    use super::*;

    /// Of the size of a `Total`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Persist)]
    #[persist(name = "test.Bits")]
    pub(super) struct Bits(u64);
}

#[test]
fn a_programs_own_types_are_told_apart_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let pool = options().create(&path).unwrap();
    pool.session()
        .unwrap()
        .transaction(|tx| {
            let map = HashMap::<u64, Euros>::create(tx)?;
            map.insert(tx, 1, Euros(5))?;
            tx.set_root("prices", Root { at: map.at(), kind: kind::HASH_MAP })
        })
        .unwrap();
    pool.close().unwrap();
    let pool = options().open(&path).unwrap();
    pool.session()
        .unwrap()
        .transaction(|tx| {
            let root = tx.root("prices")?.expect("a root");
            wrong_type(&HashMap::<u64, Cents>::new(root.at).get(tx, 1), "HashMap<u64, test.Cents>");
            wrong_type(&HashMap::<u64, i64>::new(root.at).get(tx, 1), "HashMap<u64, i64>");
            // The name counts, whatever Rust calls the type.
            let same = HashMap::<u64, AlsoEuros>::new(root.at).get(tx, 1)?;
            assert_eq!(same, Some(AlsoEuros(5)));
            // It can be checked without its types all the same.
            assert!(check_root(tx, root, &mut |_| Ok(()))?);
            let otherwise = Root { kind: kind::ORDERED_MAP, ..root };
            is_damage(&check_root(tx, otherwise, &mut |_| Ok(())));
            Ok(())
        })
        .unwrap();
}

/// Any changed bit in the tag of a rooted collection is damage, and never another type.
#[test]
fn a_damaged_tag_is_damage() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        let map = handle
            .transaction(|tx| {
                let map = HashMap::<u64, u64>::create(tx)?;
                tx.set_root("map", Root { at: map.at(), kind: kind::HASH_MAP })?;
                Ok(map)
            })
            .unwrap();
        for bit in 0..64 {
            let tried = handle.transaction(|tx| {
                let tag = tx.read_word(map.at())?;
                tx.write_word(map.at(), tag ^ 1 << bit)?;
                is_damage(&map.get(tx, 1));
                is_damage(&HashMap::<u64, u64>::new(map.at()).get(tx, 1));
                is_damage(&check_root(
                    tx,
                    Root { at: map.at(), kind: kind::HASH_MAP },
                    &mut |_| Ok(()),
                ));
                tx.abort::<()>("the tag as it was")
            });
            assert!(matches!(tried, Err(Error::Aborted(_))), "bit {bit}: {tried:?}");
        }
    });
}
