//! Commits that are larger than the log.

use crate::common::{Folder, is_whole, number, open, run, text};
use perdura::{Domain, Options};

const ROWS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
    INSERT INTO t SELECT i, printf('%0400d', i) FROM n";

/// On a block device too, where engines log new pages.
#[test]
fn bulk_updates_and_vacuum_fit_a_small_log() {
    for domain in [None, Some(Domain::Media)] {
        let folder = Folder::new();
        let options = Options::new().size(192 << 20).log(2 << 20).domain(domain);
        let served = perdura_sqlite::serve(options.create(folder.pool()).unwrap());
        let db = folder.open();
        run(&db, "PRAGMA cache_size = 100; CREATE TABLE t (i INTEGER PRIMARY KEY, x TEXT)");
        run(&db, ROWS);
        assert!(number(&db, "PRAGMA page_count") * 4096 > 10 * (2 << 20));
        let reader = folder.open();
        run(&reader, "BEGIN");
        let first = text(&reader, "SELECT x FROM t WHERE i = 1");
        run(&db, "UPDATE t SET x = 'b' || substr(x, 2)");
        assert_eq!(text(&reader, "SELECT x FROM t WHERE i = 1"), first);
        run(&reader, "COMMIT");
        run(&db, "BEGIN; UPDATE t SET x = 'c' || substr(x, 2); ROLLBACK");
        run(&db, "DELETE FROM t WHERE i % 2 = 0; VACUUM");
        assert_eq!(number(&db, "SELECT count(*) FROM t WHERE x LIKE 'b%'"), 30000);
        is_whole(&db);
        drop((db, reader, served));
        folder.check();
        let db = open(&folder.pool(), "");
        assert_eq!(number(&db, "SELECT sum(i) FROM t"), 900_000_000);
        is_whole(&db);
    }
}
