//! Random statements on a database in a pool and on one in memory: the same results, and the same contents.

use crate::common::{Folder, is_whole, open, run};
use perdura_memory::random::SplitMix64;
use rusqlite::Connection;

/// All rows, and the schema.
fn contents(db: &Connection) -> Vec<String> {
    let all = "SELECT 't ' || i || ' ' || quote(x) || ' ' || quote(y) FROM t UNION ALL
        SELECT 'u ' || k || ' ' || quote(v) FROM u UNION ALL
        SELECT type || ' ' || name FROM sqlite_schema ORDER BY 1";
    let mut statement = db.prepare(all).unwrap();
    let rows = statement.query_map((), |row| row.get(0)).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

fn statement(random: &mut SplitMix64) -> String {
    let mut below = |bound: u64| random.below(bound);
    let (i, n, len) = (below(400), below(60) + 1, below(3000));
    let value = match below(4) {
        0 => format!("zeroblob({len})"),
        1 => format!("printf('%0{len}d', {i})"),
        2 => i.to_string(),
        _ => "NULL".to_owned(),
    };
    match below(20) {
        0..5 => format!(
            "WITH RECURSIVE n(j) AS (SELECT {i} UNION ALL SELECT j + 1 FROM n WHERE j < {i} + {n})
             INSERT OR REPLACE INTO t SELECT j, j % 7, {value} FROM n"
        ),
        5..8 => format!("UPDATE t SET y = {value} WHERE i BETWEEN {i} AND {i} + {n}"),
        8 => format!("UPDATE t SET i = i + 1000 WHERE i % {n} = 0 AND i < {i}"),
        9..11 => format!("DELETE FROM t WHERE i BETWEEN {i} AND {i} + {n}"),
        11 => "DELETE FROM t".to_owned(),
        12..14 => {
            format!("INSERT OR IGNORE INTO u SELECT x || '/' || i, y FROM t WHERE i % {n} = 1")
        }
        // Fails in the middle, if there are such rows.
        14 => format!("UPDATE u SET k = 'same' WHERE length(k) % {n} = 0"),
        15 => "CREATE INDEX IF NOT EXISTS by_x ON t (x, y)".to_owned(),
        16 => "DROP INDEX IF EXISTS by_x".to_owned(),
        17 => "PRAGMA incremental_vacuum(5)".to_owned(),
        18 => "VACUUM".to_owned(),
        _ => "SAVEPOINT s; DELETE FROM u; UPDATE t SET x = 9; ROLLBACK TO s; RELEASE s".to_owned(),
    }
}

#[test]
fn random_statements_do_what_they_do_in_memory() {
    for seed in perdura_testing::seeds(1, 6) {
        let mut random = SplitMix64::new(seed);
        let folder = Folder::new();
        let model = Connection::open_in_memory().unwrap();
        let size = 512 << random.below(8);
        let first = open(&folder.pool(), "&size=67108864&log=2097152");
        run(
            &first,
            &format!("PRAGMA page_size = {size}; PRAGMA auto_vacuum = {}", random.below(3)),
        );
        let both = [first, open(&folder.pool(), "")];
        for db in [&both[0], &model] {
            run(db, "CREATE TABLE t (i INTEGER PRIMARY KEY, x, y)");
            run(db, "CREATE TABLE u (k TEXT PRIMARY KEY, v) WITHOUT ROWID");
        }
        both.iter().for_each(|db| run(db, "PRAGMA cache_size = 8"));
        for step in 0..60 {
            // Either connection, one statement or a transaction of some.
            let db = &both[random.below(2) as usize];
            let count = random.below(4);
            if count > 0 {
                [db, &model].into_iter().for_each(|db| run(db, "BEGIN"));
            }
            for _ in 0..=count {
                let sql = statement(&mut random);
                let [there, expected] = [db, &model]
                    .map(|db| db.execute_batch(&sql).map_err(|error| error.to_string()));
                assert_eq!(there, expected, "seed {seed}, step {step}: {sql}");
            }
            if count > 0 {
                let end = if random.below(3) == 0 { "ROLLBACK" } else { "COMMIT" };
                [db, &model].into_iter().for_each(|db| run(db, end));
            }
            let other = &both[random.below(2) as usize];
            assert!(contents(other) == contents(&model), "seed {seed}, after step {step}");
        }
        both.iter().for_each(is_whole);
        drop(both);
        folder.check();
        let db = open(&folder.pool(), "");
        assert!(contents(&db) == contents(&model), "seed {seed}, after reopening");
        is_whole(&db);
    }
}
