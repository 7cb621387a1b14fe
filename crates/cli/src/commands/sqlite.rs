//! `perdura sqlite`: databases of SQLite in a pool.

use crate::domain::DomainChoice;
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::quantity::{self, plural, show_bytes};
use clap::Subcommand;
use perdura::{EngineKind, Options, Pool};
use perdura_sqlite::copy::{self, CopyError, Moved};
use perdura_sqlite::{MAIN, databases};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The command and its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Bring a database file of SQLite into a pool, with its write-ahead log if it has one
    Import(Import),
    /// Write a database in a pool to a file that any SQLite can open
    Export(Export),
    /// Check the databases in a pool, without writing to it
    Check(Check),
}

#[derive(Debug, clap::Args)]
#[allow(missing_docs)] // A comment would be its help text.
pub struct Import {
    /// The pool's file; it is created if it is not there
    pool: PathBuf,

    /// The database file; it is not changed, and must not be in use
    file: PathBuf,

    /// Name of the database in the pool: `main` is opened by the pool's own path, another one by POOL/NAME
    #[arg(long, default_value = MAIN)]
    name: String,

    /// Bytes that a new pool may grow to
    #[arg(long, value_name = "BYTES", default_value = "16G", value_parser = quantity::bytes)]
    size: u64,

    #[arg(long, help = format!("Engine of a new pool: one of {}", EngineKind::NAMES), value_name = "ENGINE")]
    engine: Option<EngineKind>,

    /// Persistence domain: auto, transient, persistent, media or process
    #[arg(long, value_name = "DOMAIN", default_value = "auto")]
    domain: DomainChoice,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[allow(missing_docs)]
pub struct Export {
    /// The pool's file; it must not be in use
    pool: PathBuf,

    /// The new database file
    file: PathBuf,

    /// Name of the database in the pool
    #[arg(long, default_value = MAIN)]
    name: String,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[allow(missing_docs)]
pub struct Check {
    /// The pool's file; it must not be in use
    pool: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The command's failure.
pub fn run(command: Command) -> Outcome {
    match command {
        Command::Import(arguments) => import(&arguments),
        Command::Export(arguments) => export(&arguments),
        Command::Check(arguments) => check(&arguments),
    }
}

/// The output of an import or an export.
#[derive(Serialize)]
struct Report {
    name: String,
    bytes: u64,
    page_size: u64,
    pages_from_wal: u64,
}

fn report(name: &str, moved: Moved, json: bool) -> Outcome {
    let Moved { bytes, page_size, from_wal } = moved;
    if json {
        let name = name.to_owned();
        return print_json(&Report { name, bytes, page_size, pages_from_wal: from_wal });
    }
    let pages = plural(bytes.div_ceil(page_size), "page");
    let from_wal = match from_wal {
        0 => String::new(),
        some => format!("; {} out of its write-ahead log", plural(some, "page")),
    };
    print(format!("database {name}: {}, {pages} of {page_size} bytes{from_wal}", show_bytes(bytes)))
}

fn failed(path: &Path) -> impl Fn(CopyError) -> Failure + '_ {
    move |error| match error {
        CopyError::Io(path, error) => Failure::io(&path, &error),
        error => Failure::at(path, error),
    }
}

fn import(arguments: &Import) -> Outcome {
    let Import { pool: path, file, name, size, engine, domain, json } = arguments;
    std::fs::metadata(file).map_err(|error| Failure::io(file, &error))?;
    let mut options = Options::new().domain(domain.0);
    if let Some(engine) = engine {
        options = options.engine(*engine);
    }
    let is_new = !path.exists();
    let pool = if is_new { options.size(*size).create(path) } else { options.open(path) };
    let pool = pool.map_err(|error| Failure::at(path, error))?;
    let moved = match copy::import(&pool, name, file) {
        Ok(moved) => moved,
        Err(error) => {
            drop(pool);
            if is_new {
                // A file that cannot be imported makes no pool.
                std::fs::remove_file(path).map_err(|error| Failure::io(path, &error))?;
            }
            return Err(failed(path)(error));
        }
    };
    close(path, pool)?;
    report(name, moved, *json)
}

fn export(arguments: &Export) -> Outcome {
    let Export { pool: path, file, name, json } = arguments;
    let pool = open(path)?;
    let moved = copy::export(&pool, name, file).map_err(failed(path))?;
    close(path, pool)?;
    report(name, moved, *json)
}

fn open(path: &Path) -> Outcome<Pool> {
    Options::new().accept_weaker(true).open(path).map_err(|error| Failure::at(path, error))
}

fn close(path: &Path, pool: Pool) -> Outcome {
    pool.close().map_err(|error| Failure::at(path, error))
}

/// The output of a check.
#[derive(Serialize)]
struct Checked {
    databases: Vec<CheckedDatabase>,
    /// The pool's own.
    problems: Vec<String>,
    /// Whether SQLite itself has checked the databases.
    by_sqlite: bool,
}

#[derive(Serialize)]
struct CheckedDatabase {
    name: String,
    bytes: u64,
    problems: Vec<String>,
}

fn check(arguments: &Check) -> Outcome {
    let Check { pool: path, json } = arguments;
    let structure = super::pool::check_pool(path)?;
    let mut checked = Checked {
        databases: Vec::new(),
        problems: structure.problems,
        by_sqlite: cfg!(feature = "sqlite"),
    };
    if checked.problems.is_empty() {
        let pool = open(path)?;
        let found = databases(&pool).map_err(|error| Failure::at(path, error))?;
        close(path, pool)?;
        for (name, bytes) in found {
            #[cfg(feature = "sqlite")]
            let problems = copy::check(path, &name).map_err(failed(path))?;
            #[cfg(not(feature = "sqlite"))]
            let problems = Vec::new();
            checked.databases.push(CheckedDatabase { name, bytes, problems });
        }
    }
    let inside = checked.databases.iter().flat_map(|database| &database.problems);
    let count = checked.problems.len() + inside.count();
    match json {
        true => print_json(&checked)?,
        false => print(text(&checked))?,
    }
    match count {
        0 => Ok(()),
        count => Err(Failure::at(path, plural(count as u64, "problem"))),
    }
}

fn text(checked: &Checked) -> String {
    let mut lines: Vec<String> =
        checked.problems.iter().map(|one| format!("PROBLEM: {one}")).collect();
    for CheckedDatabase { name, bytes, problems } in &checked.databases {
        lines.push(format!("database {name}, {}", show_bytes(*bytes)));
        lines.extend(problems.iter().map(|one| format!("PROBLEM: {name}: {one}")));
    }
    if !checked.by_sqlite {
        lines.push(
            "note: the pool's structure was checked, not what SQLite keeps in its pages: use a SQLite with the \
             extension (PRAGMA integrity_check), or build this program with the feature `sqlite`"
                .to_owned(),
        );
    }
    let has_problems = lines.iter().any(|line| line.starts_with("PROBLEM"));
    if !has_problems {
        lines.push("no problem found".to_owned());
    }
    lines.join("\n")
}
