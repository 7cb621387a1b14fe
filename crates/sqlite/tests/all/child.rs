//! A process that writes to two databases of a pool with several threads, until it is killed; and what must be there
//! afterwards.

use crate::common::{number, open, run, text, uri};
use perdura::{Domain, Options};
use perdura_memory::mapped::record::{Faults, Recorder};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Threads that write.
pub(crate) const THREADS: i64 = 4;
const TABLES: &str = "CREATE TABLE log (thread, n, pad, PRIMARY KEY (thread, n)) WITHOUT ROWID;
    CREATE TABLE total (n); INSERT INTO total VALUES (0)";

/// An acknowledged transaction: its thread, its number, and the length of the trace afterwards.
pub(crate) type Acknowledgement = (i64, i64, u64);

/// Whether the path is that of an ordinary database, instead of a pool.
fn is_ordinary(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "db")
}

/// Two ordinary databases, with write-ahead logs, and each commit synced.
fn both_ordinary(path: &Path) -> Connection {
    let db = Connection::open(path).unwrap();
    db.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
    run(&db, &format!("ATTACH '{}' AS b", path.with_extension("other").display()));
    for schema in ["main", "b"] {
        assert_eq!(text(&db, &format!("PRAGMA {schema}.journal_mode = WAL")), "wal");
        run(&db, &format!("PRAGMA {schema}.synchronous = FULL"));
    }
    db
}

/// The two databases of a pool.
pub(crate) fn both(pool: &Path) -> Connection {
    if is_ordinary(pool) {
        return both_ordinary(pool);
    }
    let db = open(pool, "");
    run(&db, &format!("ATTACH '{}' AS b", uri(&pool.join("other"), "")));
    db
}

/// Creates both databases in a pool, with their tables.
pub(crate) fn create(pool: &Path, recorder: Option<std::sync::Arc<Recorder>>) {
    let mut options = Options::new().size(24 << 20).log(1 << 20);
    if let Some(recorder) = recorder {
        options = options.domain(Some(Domain::Media)).record(recorder);
    }
    let served = (!is_ordinary(pool)).then(|| perdura_sqlite::serve(options.create(pool).unwrap()));
    let db = both(pool);
    run(&db, TABLES);
    run(&db, &TABLES.replace("TABLE ", "TABLE b.").replace("INTO ", "INTO b."));
    drop((db, served));
}

/// Starts a process that writes to the pool; with a trace it records it, and kills itself after `stop` records.
pub(crate) fn start(pool: &Path, trace: Option<(&Path, u64)>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child::writes_until_it_is_killed", "--ignored", "--nocapture"]);
    command.env("PERDURA_POOL", pool).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some((trace, stop)) = trace {
        command.env("PERDURA_TRACE", trace).env("PERDURA_STOP", stop.to_string());
    }
    command.spawn().unwrap()
}

/// What the child has acknowledged, until it ended.
pub(crate) fn read(child: &mut Child) -> Vec<Acknowledgement> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let parse = |line: String| {
        let mut words =
            line.strip_prefix("ack ")?.strip_suffix(" .")?.split(' ').map(str::to_owned);
        let mut next = || words.next()?.parse::<u64>().ok();
        Some((next()? as i64, next()? as i64, next()?))
    };
    let all = lines.filter_map(parse).collect();
    let _ = child.wait();
    all
}

/// Compares the databases of a pool with each other, and with what was acknowledged.
pub(crate) fn verify(pool: &Path, acknowledged: &[Acknowledgement]) -> Result<(), String> {
    let db = both(pool);
    for schema in ["main", "b"] {
        let whole = text(&db, &format!("PRAGMA {schema}.integrity_check"));
        if whole != "ok" {
            return Err(format!("{schema}: {whole}"));
        }
        let total = number(&db, &format!("SELECT n FROM {schema}.total"));
        let count = number(
            &db,
            &format!(
                "SELECT coalesce(sum(n), 0) FROM (SELECT max(n) AS n FROM {schema}.log GROUP BY thread)"
            ),
        );
        if total != count {
            return Err(format!(
                "{schema}: the total is {total}, and the transactions are {count}"
            ));
        }
    }
    for (one, two) in [("main", "b"), ("b", "main")] {
        let more = format!(
            "SELECT count(*) FROM (SELECT * FROM {one}.log EXCEPT SELECT * FROM {two}.log)"
        );
        if number(&db, &more) != 0 {
            return Err(format!("{one} has rows that {two} has not"));
        }
    }
    let mut last = BTreeMap::new();
    for (thread, n, _) in acknowledged {
        let newest = last.entry(thread).or_insert(*n);
        *newest = (*newest).max(*n);
    }
    for (thread, n) in last {
        let there =
            number(&db, &format!("SELECT coalesce(max(n), 0) FROM log WHERE thread = {thread}"));
        if there < n {
            return Err(format!("thread {thread}: {n} was acknowledged, and {there} is there"));
        }
    }
    Ok(())
}

/// Not a test: the process that [`start`] starts.
#[test]
#[ignore = "runs in a process of its own"]
fn writes_until_it_is_killed() {
    let Some(pool) = std::env::var_os("PERDURA_POOL").map(PathBuf::from) else { return };
    perdura_sqlite::register().unwrap();
    let trace = std::env::var_os("PERDURA_TRACE").map(PathBuf::from);
    let mut options = Options::new();
    if let Some(trace) = &trace {
        let stop_after = std::env::var("PERDURA_STOP").ok().and_then(|stop| stop.parse().ok());
        let recorder = Recorder::append_to(trace, Faults { stop_after, fail_sync: None }).unwrap();
        options = options.domain(Some(Domain::Media)).record(recorder);
    }
    let _served =
        (!is_ordinary(&pool)).then(|| perdura_sqlite::serve(options.open(&pool).unwrap()));
    let position = || trace.as_ref().map_or(0, |path| std::fs::metadata(path).unwrap().len());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, position) = (&pool, &position);
            scope.spawn(move || write(&both(pool), thread, position));
        }
    });
}

fn write(db: &Connection, thread: i64, position: &dyn Fn() -> u64) {
    let from = number(db, &format!("SELECT coalesce(max(n), 0) FROM log WHERE thread = {thread}"));
    for n in from + 1.. {
        // Long and short rows, of which the last few stay; now and then a transaction that is given up.
        let pad = if n % 4 == 0 { 9000 } else { n % 150 };
        run(db, "BEGIN IMMEDIATE");
        for schema in ["main", "b"] {
            run(
                db,
                &format!(
                    "INSERT INTO {schema}.log VALUES ({thread}, {n}, printf('%0{pad}d', {n}))"
                ),
            );
            run(db, &format!("DELETE FROM {schema}.log WHERE thread = {thread} AND n < {n} - 8"));
            run(db, &format!("UPDATE {schema}.total SET n = n + 1"));
            if n % 7 == 0 && schema == "main" {
                run(db, "ROLLBACK; BEGIN IMMEDIATE");
                run(
                    db,
                    &format!(
                        "INSERT INTO main.log VALUES ({thread}, {n}, 'again'); UPDATE main.total SET n = n + 1"
                    ),
                );
            }
        }
        if n % 7 == 0 {
            run(db, &format!("UPDATE b.log SET pad = 'again' WHERE thread = {thread} AND n = {n}"));
            run(db, &format!("DELETE FROM main.log WHERE thread = {thread} AND n < {n} - 8"));
        }
        run(db, "COMMIT");
        let line = format!("ack {thread} {n} {} .\n", position());
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}
