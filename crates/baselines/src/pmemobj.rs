//! libpmemobj (PMDK): a C program, compiled on first use and run as a child process.
//!
//! `PMEM_IS_PMEM_FORCE=1` makes it write lines back with the processor's instructions on tmpfs too, as it would on
//! persistent memory, instead of calling `msync`.

use crate::child::{self, last_words};
use crate::{Baseline, Error, Figure, Result, Size, Work};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const SOURCES: &[(&str, &str)] = &[
    ("bench.h", include_str!("../c/bench.h")),
    ("main.c", include_str!("../c/main.c")),
    ("sps.c", include_str!("../c/sps.c")),
    ("map.c", include_str!("../c/map.c")),
    ("hash.c", include_str!("../c/hash.c")),
    ("ordered.c", include_str!("../c/ordered.c")),
    ("overwrite.c", include_str!("../c/overwrite.c")),
];
/// Counts what libpmemobj asks libpmem for.
const COUNT: &str = include_str!("../c/count.c");
const ADVICE: &str = "install libpmemobj-dev and gcc";
/// Room for logs and the allocator's own pages, in bytes.
const ROOM: u64 = 64 << 20;

/// libpmemobj as a baseline.
pub struct Pmemobj {
    name: String,
    folder: TempDir,
}

impl Pmemobj {
    /// Compiles the program.
    ///
    /// # Errors
    /// `Unavailable` without a C compiler or the library.
    pub fn new() -> Result<Self> {
        let folder = TempDir::with_prefix("perdura-baseline-")
            .map_err(Error::io("cannot make a folder to compile in"))?;
        compile(folder.path())?;
        Ok(Pmemobj { name: versioned_name(), folder })
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("bench")
    }

    /// Counts what an operation costs on average, by a library that stands before libpmem. Nothing is timed.
    ///
    /// # Errors
    /// `Unavailable` without libpmem's header; `Failed` when the program fails.
    pub fn costs(&self, work: Work, size: &Size, folder: &Path) -> Result<Costs> {
        let library = self.folder.path().join("count.so");
        std::fs::write(self.folder.path().join("count.c"), COUNT)
            .map_err(Error::io("cannot write C source"))?;
        let mut command = Command::new("cc");
        command.args(["-O2", "-std=gnu11", "-shared", "-fPIC", "-o"]).arg(&library);
        command.args(["count.c", "-ldl"]).current_dir(self.folder.path());
        compiled(&child::output(&mut command, "C compiler", ADVICE)?)?;
        let counted = |operations: u64| -> Result<Counted> {
            let size = Size { operations, ..*size };
            let output = self.output(work, &size, folder, Some(&library))?;
            serde_json::from_str(&last_words(&output))
                .map_err(|error| Error::failed(self.name(), error.to_string()))
        };
        // The difference has neither the pool's creation nor its data.
        let (once, twice) = (counted(size.operations)?, counted(2 * size.operations)?);
        let each = |once: u64, twice: u64| (twice - once) as f64 / size.operations as f64;
        Ok(Costs { fences: each(once.fences, twice.fences), lines: each(once.lines, twice.lines) })
    }

    /// Runs the program to its end, on a new pool in `folder`, with a library `before` all others.
    fn output(
        &self,
        work: Work,
        size: &Size,
        folder: &Path,
        before: Option<&Path>,
    ) -> Result<Output> {
        let pools = TempDir::with_prefix_in("perdura-baseline-", folder)
            .map_err(Error::io(format!("cannot make a folder in {}", folder.display())))?;
        let numbers = [
            pool_bytes(work, size),
            size.entries,
            size.width,
            size.operations,
            size.warm_up,
            size.seed,
        ];
        let mut command = Command::new(self.program());
        command.env("PMEM_IS_PMEM_FORCE", "1").arg(work.name()).arg(pools.path().join("pool"));
        command.args(numbers.map(|number| number.to_string()));
        if let Some(library) = before {
            command.env("LD_PRELOAD", library);
        }
        let output = child::output(&mut command, "compiled C program", "it was here a moment ago")?;
        if !output.status.success() {
            let said = last_words(&output);
            let why = said.strip_prefix("error: ").unwrap_or(&said);
            return Err(Error::failed(self.name(), why));
        }
        Ok(output)
    }
}

/// What an operation asks for, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Fences.
    pub fences: f64,
    /// Lines written back, or stored past the caches.
    pub lines: f64,
}

#[derive(serde::Deserialize)]
struct Counted {
    fences: u64,
    lines: u64,
}

fn compile(folder: &Path) -> Result<()> {
    let mut command = Command::new("cc");
    command.args(["-O2", "-std=gnu11", "-o", "bench"]).current_dir(folder);
    for (name, text) in SOURCES {
        std::fs::write(folder.join(name), text).map_err(Error::io("cannot write C source"))?;
        if name.ends_with(".c") {
            command.arg(name);
        }
    }
    compiled(&child::output(command.arg("-lpmemobj"), "C compiler", ADVICE)?)
}

/// Whether the compiler was content.
fn compiled(output: &Output) -> Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if ["libpmemobj.h", "libpmem.h", "-lpmemobj"].iter().any(|missing| said.contains(missing)) {
        return Err(Error::Unavailable(ADVICE.to_owned()));
    }
    Err(Error::failed("the C compiler", last_words(output)))
}

fn versioned_name() -> String {
    let version = Command::new("pkg-config").args(["--modversion", "libpmemobj"]).output();
    match version {
        Ok(output) if output.status.success() => {
            format!("libpmemobj {}", String::from_utf8_lossy(&output.stdout).trim())
        }
        _ => "libpmemobj".to_owned(),
    }
}

/// Bytes of the pool: libpmemobj takes them all from the file system at once.
fn pool_bytes(work: Work, size: &Size) -> u64 {
    let data = match work {
        Work::Sps => size.entries * 8,
        // A bucket for each key, or nodes that are half empty; entries for half of the keys.
        Work::Map | Work::Ordered => size.entries * 160,
        Work::Overwrite => size.entries * (size.width + 256),
    };
    (data + data / 2 + ROOM).next_multiple_of(1 << 20)
}

#[derive(serde::Deserialize)]
struct Printed {
    operations: u64,
    seconds: f64,
}

impl Baseline for Pmemobj {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&mut self, work: Work, size: &Size, folder: &Path) -> Result<Figure> {
        let output = self.output(work, size, folder, None)?;
        let printed: Printed = serde_json::from_slice(&output.stdout)
            .map_err(|error| Error::failed(self.name(), error.to_string()))?;
        Ok(Figure { operations: printed.operations, seconds: printed.seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small, and skipped if libpmemobj is not installed: this project does not depend on it.
    #[test]
    fn every_workload_runs_and_checks_itself() {
        let mut baseline = match Pmemobj::new() {
            Err(Error::Unavailable(why)) => return eprintln!("skipped: {why}"),
            other => other.expect("the C program compiles"),
        };
        let folder = TempDir::new().expect("a temporary folder");
        for work in Work::ALL {
            let width = if work == Work::Overwrite { 1024 } else { 2 };
            let size = Size { entries: 1_000, width, operations: 5_000, warm_up: 100, seed: 7 };
            let figure = baseline
                .run(work, &size, folder.path())
                .unwrap_or_else(|error| panic!("{}: {error}", work.name()));
            assert_eq!(figure.operations, 5_000);
            assert!(figure.seconds > 0.0);
        }
    }

    /// The figures of docs/stm.md, printed. A snapshot of a range costs a fence at least, and so does the commit.
    #[test]
    fn each_snapshot_costs_a_fence() {
        let baseline = match Pmemobj::new() {
            Err(Error::Unavailable(why)) => return eprintln!("skipped: {why}"),
            other => other.expect("the C program compiles"),
        };
        let folder = TempDir::new().expect("a temporary folder");
        for swaps in [1, 4, 16] {
            let size =
                Size { entries: 100_000, width: swaps, operations: 1_000, warm_up: 0, seed: 1 };
            let costs = baseline.costs(Work::Sps, &size, folder.path()).expect("it runs");
            println!("{}: {swaps} swaps: {costs:?}", baseline.name());
            let words = 2.0 * swaps as f64;
            // Words that were drawn twice have one snapshot.
            assert!(costs.fences > 0.99 * words + 1.0, "{costs:?}");
            assert!(costs.lines > 0.99 * 2.0 * words, "{costs:?}");
        }
    }

    #[test]
    fn a_wrong_parameter_is_an_error_with_a_reason() {
        let Ok(mut baseline) = Pmemobj::new() else { return };
        let size = Size { entries: u64::MAX / 512, width: 1, operations: 1, warm_up: 0, seed: 0 };
        let folder = TempDir::new().expect("a temporary folder");
        let error = baseline.run(Work::Sps, &size, folder.path()).expect_err("no such memory");
        assert!(error.to_string().contains("pool"), "{error}");
    }
}
