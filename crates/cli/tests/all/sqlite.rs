//! `perdura sqlite`.

use crate::common::{arg, fail, succeed};

/// An empty database of SQLite, of one page; its header says that it is in WAL mode.
fn empty_database() -> Vec<u8> {
    let mut page = vec![0; 4096];
    page[..16].copy_from_slice(b"SQLite format 3\0");
    page[16..24].copy_from_slice(&[0x10, 0, 2, 2, 0, 64, 32, 32]);
    // The change counter, the number of pages, the formats of schema and text.
    for (at, value) in [(27, 1), (31, 1), (47, 4), (59, 1), (95, 1)] {
        page[at] = value;
    }
    // A leaf without rows.
    page[100..108].copy_from_slice(&[13, 0, 0, 0, 0, 0x10, 0, 0]);
    page
}

#[test]
fn databases_are_imported_checked_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let [file, pool, new] = ["a.db", "a.pool", "new.db"].map(|name| folder.path().join(name));
    std::fs::write(&file, empty_database()).unwrap();
    let small = ["--size", "16M"];
    let said = succeed(&[&["sqlite", "import", arg(&pool), arg(&file)][..], &small].concat());
    assert!(
        said.starts_with("database main: 4096 bytes") || said.contains("1 page of 4096"),
        "{said}"
    );
    succeed(&["sqlite", "import", arg(&pool), arg(&file), "--name", "other"]);
    let again = fail(&["sqlite", "import", arg(&pool), arg(&file)]);
    assert!(again.contains("already"), "{again}");
    let checked = succeed(&["sqlite", "check", arg(&pool), "--json"]);
    for name in ["main", "other"] {
        assert!(checked.contains(&format!("\"name\": \"{name}\"")), "{checked}");
    }
    assert!(succeed(&["sqlite", "check", arg(&pool)]).ends_with("no problem found\n"));
    let whole = succeed(&["pool", "check", arg(&pool)]);
    assert!(whole.contains("named roots lead to all of them"), "{whole}");
    succeed(&["sqlite", "export", arg(&pool), arg(&new), "--name", "other"]);
    let mut rollback = empty_database();
    rollback[18..20].fill(1);
    assert!(std::fs::read(&new).unwrap() == rollback, "without WAL mode");
    assert!(fail(&["sqlite", "export", arg(&pool), arg(&new)]).contains("exist"));
    let missing =
        fail(&["sqlite", "export", arg(&pool), arg(&folder.path().join("x")), "--name", "no"]);
    assert!(missing.contains("no database 'no'"), "{missing}");
}

/// The tests' build has the feature `sqlite`: a database that is whole in the pool, but not for SQLite.
#[test]
fn a_check_asks_sqlite_itself() {
    let folder = tempfile::tempdir().unwrap();
    let [file, pool] = ["a.db", "a.pool"].map(|name| folder.path().join(name));
    let mut database = empty_database();
    // The number of unused pages: there are none.
    database[39] = 1;
    std::fs::write(&file, database).unwrap();
    succeed(&["sqlite", "import", arg(&pool), arg(&file), "--size", "16M"]);
    assert!(succeed(&["pool", "check", arg(&pool)]).contains("named roots lead to all of them"));
    let found = fail(&["sqlite", "check", arg(&pool)]);
    assert!(found.contains("1 problem"), "{found}");
}

#[test]
fn what_is_no_database_makes_no_pool() {
    let folder = tempfile::tempdir().unwrap();
    let [file, pool] = ["a.db", "a.pool"].map(|name| folder.path().join(name));
    assert!(fail(&["sqlite", "import", arg(&pool), arg(&file)]).contains("a.db"));
    assert!(!pool.exists());
    std::fs::write(&file, "something else").unwrap();
    let refused = fail(&["sqlite", "import", arg(&pool), arg(&file)]);
    assert!(refused.contains("no database of SQLite"), "{refused}");
    assert!(!pool.exists());
    assert!(fail(&["sqlite", "check", arg(&file)]).contains("a.db"));
    let whole = empty_database();
    for len in [whole.len() - 1, 200] {
        std::fs::write(&file, &whole[..len]).unwrap();
        let refused = fail(&["sqlite", "import", arg(&pool), arg(&file)]);
        assert!(refused.contains("the database is cut"), "{refused}");
        assert!(!pool.exists());
    }
    std::fs::write(&file, whole).unwrap();
    succeed(&["sqlite", "import", arg(&pool), arg(&file), "--size", "16M"]);
    // A pool that was there stays.
    std::fs::write(&file, "something else").unwrap();
    fail(&["sqlite", "import", arg(&pool), arg(&file), "--name", "other"]);
    assert!(succeed(&["sqlite", "check", arg(&pool)]).contains("main"));
}
