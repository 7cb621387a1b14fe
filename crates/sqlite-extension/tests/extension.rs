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
