//! The shared library in programs that know nothing of it: the shell, and Python. They are skipped if not installed.

#![allow(missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder for a pool.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn pool(&self) -> PathBuf {
        self.0.path().join("app.pool")
    }

    fn check(&self) {
        let report = perdura::check::check(&self.pool(), &perdura_sqlite::check_root).unwrap();
        assert!(report.is_whole(), "{:?}", report.problems);
        assert_eq!(report.unreachable, Some(0));
    }
}

fn uri(path: &Path, parameters: &str) -> String {
    format!("file:{}?vfs=perdura{parameters}", path.display())
}

/// The extension, as Cargo has built it with these tests.
fn extension() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests.parent().unwrap().join("libperdura_vfs.so");
    assert!(built.is_file(), "{}", built.display());
    built
}

fn output(command: &mut Command) -> Option<Output> {
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("{command:?} is not installed: skipped");
            None
        }
        output => Some(output.unwrap()),
    }
}

#[test]
fn the_shell_loads_it() {
    let folder = Folder::new();
    let pool = folder.pool();
    let load = format!(".load {}", extension().display());
    let open = format!(".open \"{}\"", uri(&pool, "&size=67108864"));
    let shell = |commands: &[&str]| {
        let mut command = Command::new("/usr/bin/sqlite3");
        command.args([":memory:", "-bail", "-cmd", &load, "-cmd", &open]).args(commands);
        output(&mut command)
    };
    let made =
        "CREATE TABLE t (x); INSERT INTO t VALUES ('from the shell'); SELECT count(*) FROM t";
    let Some(made) = shell(&[made]) else { return };
    assert_eq!(String::from_utf8_lossy(&made.stdout).trim(), "1", "{made:?}");
    let attach = format!(
        "ATTACH '{}' AS b; CREATE TABLE b.u AS SELECT * FROM t; SELECT x FROM u; PRAGMA journal_mode = WAL",
        uri(&pool.join("other"), "")
    );
    let read = shell(&[&attach]).unwrap();
    assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), "from the shell\nmemory", "{read:?}");
    folder.check();
}

const PROGRAM: &str = r#"
import os, sqlite3, sys, threading
extension, uri, other = sys.argv[1:]
loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(extension)
loader.close()
db = sqlite3.connect(uri, uri=True)
db.execute("CREATE TABLE t (thread, n)")
db.execute("ATTACH ? AS b", (other,))
db.execute("CREATE TABLE b.u (x)")
db.commit()
def work(thread):
    own = sqlite3.connect(uri, uri=True, timeout=30)
    for n in range(25):
        with own:
            own.execute("INSERT INTO t VALUES (?, ?)", (thread, n))
    own.close()
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert db.execute("SELECT count(*) FROM t").fetchone() == (100,)
# A forked child cannot use the parent's pool, and does it no harm.
child = os.fork()
if child == 0:
    try:
        db.execute("INSERT INTO t VALUES (9, 9)")
        os._exit(1)
    except sqlite3.OperationalError:
        os._exit(0)
assert os.waitpid(child, 0)[1] == 0
with db:
    db.execute("INSERT INTO t VALUES (9, 10)")
    db.execute("INSERT INTO b.u VALUES (1)")
assert db.execute("SELECT count(*), (SELECT count(*) FROM b.u) FROM t").fetchone() == (101, 1)
assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
db.close()
print("done", sqlite3.sqlite_version)
"#;

#[test]
fn python_loads_it() {
    let folder = Folder::new();
    let (pool, other) = (uri(&folder.pool(), "&size=67108864"), uri(&folder.pool().join("b"), ""));
    let mut command = Command::new("/usr/bin/python3");
    command.arg("-c").arg(PROGRAM).arg(extension()).args([pool, other]);
    let Some(run) = output(&mut command) else { return };
    assert!(String::from_utf8_lossy(&run.stdout).starts_with("done"), "{run:?}");
    folder.check();
}

const LITTLE_MEMORY: &str = r#"
import resource, sqlite3, sys
extension, uri = sys.argv[1:]
loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(extension)
db = sqlite3.connect(uri, uri=True, isolation_level=None)
db.executescript("CREATE TABLE t (x); INSERT INTO t VALUES (1); PRAGMA cache_size = 10")
with open("/proc/self/status") as status:
    used = next(int(line.split()[1]) for line in status if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, ((used << 10) + (100 << 20),) * 2)
try:
    db.execute("BEGIN")
    for n in range(100000):
        db.execute("INSERT INTO t VALUES (zeroblob(3000))")
    sys.exit("there is enough memory")
except (MemoryError, sqlite3.OperationalError) as error:
    print("failed", repr(error))
if db.in_transaction:
    db.execute("ROLLBACK")
db.execute("INSERT INTO t VALUES (2)")
assert db.execute("SELECT count(*), sum(x) FROM t").fetchone() == (2, 3)
db.close()
print("done")
"#;

#[test]
fn a_transaction_that_memory_does_not_hold_fails_and_the_process_goes_on() {
    let folder = Folder::new();
    let pool = uri(&folder.pool(), "&size=67108864");
    let mut command = Command::new("/usr/bin/python3");
    command.arg("-c").arg(LITTLE_MEMORY).arg(extension()).arg(pool);
    let Some(run) = output(&mut command) else { return };
    assert!(String::from_utf8_lossy(&run.stdout).ends_with("done\n"), "{run:?}");
    folder.check();
}

/// A shell with a pool of 2,000 rows, and the commands in a line each.
fn on_filled_pool(folder: &Folder, commands: &[&str]) -> Option<Output> {
    let mut command = Command::new("/usr/bin/sqlite3");
    let load = format!(".load {}", extension().display());
    let open = format!(".open \"{}\"", uri(&folder.pool(), "&size=67108864"));
    command.args([":memory:", "-bail", "-cmd", &load, "-cmd", &open]).args(commands);
    output(&mut command)
}

const FILL: &str = "CREATE TABLE t (i INTEGER PRIMARY KEY, x); CREATE INDEX by_x ON t (x);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
    INSERT INTO t SELECT i, printf('%0100d', 7919 * i % 2000) FROM n";
const SUM: &str = "SELECT count(*) || '/' || sum(i * length(x)) || '/' || sum(i * x) FROM t";

/// Databases go in and out by the shell's own means.
#[test]
fn the_shell_backs_up_dumps_recovers_and_vacuums_into_files() {
    let folder = Folder::new();
    let text = |run: &Output| String::from_utf8_lossy(&run.stdout).trim().to_owned();
    let Some(made) = on_filled_pool(&folder, &[FILL, SUM]) else { return };
    let sum = text(&made);
    assert!(sum.starts_with("2000/"), "{made:?}");
    let file = |name: &str| folder.0.path().join(name).display().to_string();
    let stock = |database: &str, commands: &[&str]| {
        let mut command = Command::new("/usr/bin/sqlite3");
        command.args(["-bail", database]).args(commands);
        output(&mut command).unwrap()
    };
    let check = "PRAGMA integrity_check";
    let backup = file("backup.db");
    let into = file("into.db");
    for (out, sql) in [
        (&backup, format!(".backup {backup}")),
        (&into, format!("VACUUM INTO 'file:{into}?vfs=unix'")),
    ] {
        let run = on_filled_pool(&folder, &[&sql]).unwrap();
        assert!(run.status.success(), "{sql}: {run:?}");
        assert_eq!(text(&stock(out, &[SUM, check])), format!("{sum}\nok"), "{sql}");
    }
    for dump in [".dump", ".recover"] {
        let run = on_filled_pool(&folder, &[dump]).unwrap();
        if !run.status.success() || !stock(&backup, &[dump]).status.success() {
            // Not every shell can recover, whatever the database.
            let alike = stock(&backup, &[dump]).stderr == run.stderr;
            assert!(dump == ".recover" && alike, "{run:?}");
            eprintln!("this shell has no {dump}: skipped");
            continue;
        }
        let script = file(&format!("script{dump}.sql"));
        std::fs::write(&script, &run.stdout).unwrap();
        let again = file(&format!("again{dump}.db"));
        let read = stock(&again, &[&format!(".read {script}"), SUM, check]);
        assert!(text(&read).ends_with(&format!("{sum}\nok")), "{dump}: {read:?}");
        // Into a pool.
        let other = Folder::new();
        let read = on_filled_pool(&other, &[&format!(".read {script}"), SUM, check]).unwrap();
        assert!(text(&read).ends_with(&format!("{sum}\nok")), "{dump}: {read:?}");
        other.check();
    }
    let other = Folder::new();
    let restored = on_filled_pool(&other, &[&format!(".restore {backup}"), SUM, check]).unwrap();
    assert_eq!(text(&restored), format!("{sum}\nok"), "{restored:?}");
    other.check();
    folder.check();
}

const SERIALIZE: &str = r#"
import os, sqlite3, sys
extension, uri = sys.argv[1:]
loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(extension)
db = sqlite3.connect(uri, uri=True, isolation_level=None)
db.executescript("CREATE TABLE t (x); INSERT INTO t VALUES (randomblob(50000)), (2)")
db.execute("PRAGMA temp_store_directory = '/tmp'")
before = db.execute("SELECT hex(x) FROM t").fetchall()
if hasattr(db, "serialize"):
    bytes = db.serialize()
    assert bytes.startswith(b"SQLite format 3")
    copy = sqlite3.connect(":memory:")
    copy.deserialize(bytes)
    assert copy.execute("SELECT hex(x) FROM t").fetchall() == before
copy = sqlite3.connect(":memory:")
db.backup(copy)
assert copy.execute("SELECT hex(x) FROM t").fetchall() == before
copy.execute("INSERT INTO t VALUES (3)")
copy.commit()
copy.backup(db)
assert db.execute("SELECT count(*) FROM t").fetchone() == (3,)
assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
db.close()

# A pool that the process may only read, as another user: also after a crash.
def as_reader(expected):
    child = os.fork()
    if child == 0:
        try:
            os.seteuid(65534)
            for parameters in ["", "&mode=ro"]:
                db = sqlite3.connect(uri + parameters, uri=True, timeout=0)
                assert db.execute("SELECT count(*) FROM t").fetchone() == (expected,)
                assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                try:
                    db.execute("INSERT INTO t VALUES (4)")
                    os._exit(1)
                except sqlite3.OperationalError as error:
                    assert "readonly" in str(error), error
                second = sqlite3.connect(uri + parameters, uri=True)
                assert second.execute("SELECT count(*) FROM t").fetchone() == (expected,)
                second.close()
                db.close()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
if os.geteuid() == 0:
    path = uri[len("file:"):].split("?")[0]
    os.chmod(os.path.dirname(path), 0o755)
    os.chmod(path, 0o644)
    as_reader(3)
    child = os.fork()
    if child == 0:
        db = sqlite3.connect(uri, uri=True, isolation_level=None)
        db.execute("INSERT INTO t VALUES (5)")
        os._exit(0)
    os.waitpid(child, 0)
    as_reader(4)
    as_reader(4)
db = sqlite3.connect(uri, uri=True, isolation_level=None)
db.execute("INSERT INTO t VALUES (6)")
db.close()
print("done")
"#;

#[test]
fn python_copies_databases_and_reads_pools_that_it_may_not_write() {
    let folder = Folder::new();
    let pool = uri(&folder.pool(), "&size=67108864");
    let mut command = Command::new("/usr/bin/python3");
    command.arg("-c").arg(SERIALIZE).arg(extension()).arg(pool);
    let Some(run) = output(&mut command) else { return };
    assert!(String::from_utf8_lossy(&run.stdout).ends_with("done\n"), "{run:?}");
    folder.check();
}

const JAVA: &str = r#"
import java.sql.*;
import java.util.*;
import org.sqlite.SQLiteConfig;

class Program {
    static long number(Connection db, String sql) throws SQLException {
        try (Statement s = db.createStatement(); ResultSet r = s.executeQuery(sql)) {
            r.next();
            return r.getLong(1);
        }
    }

    static void run(Connection db, String sql) throws SQLException {
        try (Statement s = db.createStatement()) {
            s.execute(sql);
        }
    }

    static Connection open(String uri) throws SQLException {
        SQLiteConfig config = new SQLiteConfig();
        config.setBusyTimeout(20000);
        return config.createConnection("jdbc:sqlite:" + uri);
    }

    public static void main(String[] arguments) throws Exception {
        SQLiteConfig config = new SQLiteConfig();
        config.enableLoadExtension(true);
        try (Connection loader = config.createConnection("jdbc:sqlite::memory:")) {
            run(loader, "SELECT load_extension('" + arguments[0] + "')");
        }
        String uri = arguments[1], other = arguments[2];
        Connection db = open(uri);
        run(db, "CREATE TABLE t (thread, n)");
        List<Thread> threads = new ArrayList<>();
        for (int thread = 0; thread < 4; thread++) {
            int number = thread;
            threads.add(new Thread(() -> {
                try (Connection own = open(uri)) {
                    PreparedStatement insert = own.prepareStatement("INSERT INTO t VALUES (?, ?)");
                    for (int n = 0; n < 25; n++) {
                        insert.setInt(1, number);
                        insert.setInt(2, n);
                        insert.executeUpdate();
                    }
                } catch (SQLException error) {
                    throw new RuntimeException(error);
                }
            }));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        run(db, "ATTACH '" + other + "' AS b");
        db.setAutoCommit(false);
        run(db, "CREATE TABLE b.u AS SELECT * FROM t");
        db.commit();
        run(db, "DELETE FROM b.u");
        db.rollback();
        db.setAutoCommit(true);
        if (number(db, "SELECT count(*) FROM t") != 100 || number(db, "SELECT count(*) FROM b.u") != 100) {
            throw new RuntimeException("rows are missing");
        }
        db.close();
        System.out.println("done");
    }
}
"#;

/// A program in Java, with the driver of Debian's package `libxerial-sqlite-jdbc-java`, or of `PERDURA_SQLITE_JDBC`: a
/// class path, and the folder of its library.
#[test]
fn java_loads_it() {
    let given = std::env::var("PERDURA_SQLITE_JDBC").ok();
    let given = given.as_deref().and_then(|text| text.rsplit_once(','));
    let (jars, library) =
        given.unwrap_or(("/usr/share/java/sqlite-jdbc.jar", "/usr/lib/x86_64-linux-gnu/jni"));
    if !jars.split(':').all(|jar| Path::new(jar).is_file()) {
        eprintln!("{jars} is not installed: skipped");
        return;
    }
    let folder = Folder::new();
    let program = folder.0.path().join("Program.java");
    std::fs::write(&program, JAVA).unwrap();
    let (pool, other) = (uri(&folder.pool(), "&size=67108864"), uri(&folder.pool().join("b"), ""));
    let mut command = Command::new("/usr/bin/java");
    command.arg(format!("-Dorg.sqlite.lib.path={library}")).args(["-cp", jars]).arg(&program);
    command.arg(extension()).args([pool, other]);
    let Some(run) = output(&mut command) else { return };
    assert!(String::from_utf8_lossy(&run.stdout).ends_with("done\n"), "{run:?}");
    folder.check();
}
