//! The examples in C: compiled, linked with the shared and with the static library, run, killed,
//! run again.

use crate::common::{Link, compile, compiler, program, run};
use perdura::check::check;
use perdura::{MapError, OpenError, Options, Pool};
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

pub(crate) const LINKS: [Link; 2] = [Link::Shared, Link::Static];

pub(crate) struct Program {
    folder: TempDir,
    path: PathBuf,
}

impl Program {
    pub(crate) fn new(source: &Path, link: Link) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        compile(source, &path, link);
        Program { folder, path }
    }

    pub(crate) fn pool(&self) -> PathBuf {
        self.folder.path().join("c.pool")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(&self.path);
        command.arg(self.pool()).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> String {
        run(&mut self.command(arguments), "it is an example")
    }

    /// Runs it with this on its standard input.
    pub(crate) fn run_with(&self, input: &str) -> String {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input.as_bytes()).unwrap();
        file.rewind().unwrap();
        run(self.command(&[]).stdin(file), "it is an example")
    }

    /// Runs it until it has acknowledged so many changes, kills it, and checks the pool. How many it has acknowledged.
    fn killed_after(&self, changes: usize, arguments: &[&str]) -> usize {
        let mut child = self.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut durable = lines.filter(|line| line.ends_with("is durable"));
        assert_eq!(durable.by_ref().take(changes).count(), changes);
        child.kill().unwrap();
        child.wait().unwrap();
        self.check_pool();
        // Lines in the pipe were acknowledged, too.
        changes + durable.count()
    }

    /// The pool is whole, and so is the example's data in it.
    pub(crate) fn check_pool(&self) {
        // Only that it is whole is printed, not the roots' contents.
        let report = check(&self.pool(), &|_, _, _| Ok(false)).unwrap();
        assert!(report.is_whole(), "{:?}", report.problems);
    }
}

/// Opens a pool, trying again while it is locked: a program that another test is just starting has
/// a copy of this process's open files until it runs.
pub(crate) fn open(path: &Path) -> Pool {
    let start = Instant::now();
    loop {
        match Options::new().open(path) {
            Err(OpenError::Map(MapError::Locked(_))) if start.elapsed().as_secs() < 10 => {
                std::thread::yield_now();
            }
            other => return other.unwrap(),
        }
    }
}

pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/c").join(name)
}

#[test]
fn the_programs_in_the_docs_are_examples() {
    let docs = include_str!("../../../../docs/c-api.md");
    let told = docs.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next());
    let sources =
        [include_str!("../../examples/c/counter.c"), include_str!("../../examples/c/words.c")];
    let sources = sources.map(|source| source.split_once("*/\n").expect("a comment first").1);
    assert_eq!(told.collect::<Vec<_>>(), sources);
}

#[test]
fn a_counter_counts() {
    for link in LINKS {
        let program = Program::new(&example("counter.c"), link);
        for run in 1..=3 {
            assert_eq!(program.run(&[]), format!("run {run}\n"));
        }
        program.check_pool();
    }
}

#[test]
fn accounts_survive() {
    for link in LINKS {
        for engine in ["redo", "undo"] {
            let program = Program::new(&example("accounts.c"), link);
            let first = program.run(&["3", engine]);
            assert!(first.contains(&format!("engine {engine}\n")), "{first}");
            assert!(
                first.contains("made 8 accounts with 100 each\nfound: 800 in all, 0 transfers\n")
            );
            assert!(first.ends_with("transfer 3 is durable\nleft: 800 in all, 3 transfers\n"));
            let second = program.run(&["2"]);
            assert!(second.contains("found: 800 in all, 3 transfers\n"), "{second}");
            assert!(second.ends_with("left: 800 in all, 5 transfers\n"), "{second}");
            program.check_pool();
            let pool = open(&program.pool());
            assert_eq!(pool.engine().name(), engine);
            let transfers = pool.session().unwrap().read(|tx| {
                let root = tx.root("bank")?.expect("the example's root");
                assert_eq!(root.kind, 1000);
                tx.read_word(root.at + 64)
            });
            assert_eq!(transfers.unwrap(), 5);
        }
    }
}

#[test]
fn acknowledged_writes_survive_kills() {
    for engine in ["redo", "undo"] {
        let program = Program::new(&example("accounts.c"), Link::Shared);
        let mut acknowledged = 0;
        for kill_after in [1, 7, 20, 3] {
            acknowledged += program.killed_after(kill_after, &["1000000", engine]);
        }
        let told = program.run(&["0"]);
        let found = told.split("found: 800 in all, ").nth(1).expect(&told);
        let found: usize = found.split(' ').next().unwrap().parse().unwrap();
        // One more may have been durable, and not acknowledged, at each kill.
        assert!((acknowledged..=acknowledged + 4).contains(&found), "{found} of {acknowledged}");
    }
}

/// Threads with a lock for each account, killed in the middle: sums hold, and what was acknowledged is there.
#[test]
fn sections_survive_kills() {
    let program = Program::new(&example("branches.c"), Link::Shared);
    let mut acknowledged = 0;
    for kill_after in [1, 40, 200, 90, 13] {
        acknowledged += program.killed_after(kill_after, &["3", "1000000"]);
        assert_eq!(open(&program.pool()).engine().name(), "atlas");
    }
    let told = program.run(&["3", "50"]);
    let counted = |when| {
        let found = told.split(&format!("{when}: 600 in all, ")).nth(1).expect(&told);
        found.split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    // One more of each thread may have been durable, and not acknowledged, at each kill.
    let found = counted("found");
    assert!((acknowledged..=acknowledged + 15).contains(&found), "{found} of {acknowledged}");
    assert_eq!(counted("left"), found + 150);
}

#[test]
fn the_names_of_the_paper_work() {
    for link in LINKS {
        let program = Program::new(&example("archapt.c"), link);
        assert_eq!(program.run(&["to", "be"]), "found:\nkept 2 words, durable\n");
        assert_eq!(program.run(&["or"]), "found: be to\nkept 1 words, durable\n");
        assert_eq!(program.run(&[]), "found: or\nkept 0 words, durable\n");
        program.check_pool();
        let report = check(&program.pool(), &|_, _, _| Ok(true)).unwrap();
        assert_eq!(report.unreachable, Some(0), "all words were freed: {:?}", report.problems);
    }
}

#[test]
fn misuse_in_c_is_reported() {
    let program =
        Program::new(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/misuse.c"), Link::Shared);
    assert_eq!(program.run(&[]), "as it should be\n");
    program.check_pool();
}

#[test]
fn a_pool_in_use_is_reported() {
    let program = Program::new(&example("accounts.c"), Link::Shared);
    let _pool = Options::new().size(16 << 20).create(program.pool()).unwrap();
    let output = program.command(&["1"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("the pool is in use; close it"), "{text}");
}

#[test]
fn the_header_is_cplusplus_too() {
    let mut command = Command::new(compiler("CXX", "c++"));
    command.args(["-Wall", "-Wextra", "-Werror", "-std=c++11", "-fsyntax-only", "-x", "c++", "-"]);
    command.arg("-I").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
    let child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        // The tests need no C++ compiler: told, not hidden.
        eprintln!("no C++ compiler ({command:?}): the header was not checked with one");
        return;
    };
    let program = b"#include <perdura.h>\nint main() { return perdura_last_code(); }\n";
    child.stdin.take().unwrap().write_all(program).unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
}
