//! `perdura pool export`.

use super::copy::entry_or_entries;
use super::moving::{Bar, failure, is_standard};
use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::quantity::plural;
use clap::ValueEnum;
use perdura_transfer::export::plan;
use perdura_transfer::{Exported, Form, contents, export, export_file};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pool's file; it is not written to, and must not be in use
    pool: PathBuf,

    /// The export's file; - is the standard output
    #[arg(default_value = "-")]
    file: PathBuf,

    /// Commands of Redis, for a server's data, or lines of JSON, for collections [default: the form that the pool has
    /// data for]
    #[arg(long, value_name = "FORM")]
    format: Option<Format>,

    /// Replace the file if it is there
    #[arg(long)]
    force: bool,

    /// Print a summary as JSON; give a FILE for the export then
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Commands of Redis
    Resp,
    /// Lines of JSON
    Json,
}

impl From<Format> for Form {
    fn from(format: Format) -> Self {
        match format {
            Format::Resp => Form::Resp,
            Format::Json => Form::Json,
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let Arguments { pool, file, format, force, json } = arguments;
    let to_output = is_standard(file);
    if to_output && *json {
        return Err(Failure::new(
            "with --json the standard output has the summary: give a file for the export",
        ));
    }
    let output = if to_output { Path::new("standard output") } else { file };
    let failed = |error| failure(pool, output, error);
    let source = contents::open(pool).map_err(failed)?;
    let (roots, form) = plan(&source, format.map(Form::from)).map_err(failed)?;
    let bar = Bar::new("exporting", Some(source.used()))?;
    let mut going = |bytes| bar.go_on(bytes);
    let exported = match to_output {
        true => {
            let mut output = BufWriter::new(std::io::stdout().lock());
            export(&source, (&roots, form), &mut output, &mut going)
        }
        false => export_file(&source, (&roots, form), (file, *force), &mut going),
    };
    let exported = exported.map_err(failed)?;
    drop(bar);
    match (to_output, json) {
        (true, _) => {
            eprintln!("{}", text(&exported));
            Ok(())
        }
        (false, true) => print_json(&exported),
        (false, false) => print(format!("{}: {}", file.display(), text(&exported))),
    }
}

fn text(exported: &Exported) -> String {
    match exported.format {
        Form::Resp => format!("exported {}", plural(exported.keys, "key")),
        Form::Json => format!(
            "exported {} with {}",
            plural(exported.roots, "collection"),
            entry_or_entries(exported.entries)
        ),
    }
}
