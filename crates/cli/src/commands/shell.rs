//! `perdura completions`, `perdura man`: the command line described for shells and `man`.

use super::Arguments;
use crate::failure::{Failure, Outcome};
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Folder for the pages: `perdura.1`, and one for each command; it is made if it is not there
    folder: PathBuf,
}

/// Prints a script that completes the command line in a shell.
pub(crate) fn completions(arguments: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "perdura", &mut script);
    let mut out = std::io::stdout().lock();
    out.write_all(&script)?;
    Ok(out.flush()?)
}

/// Writes the manual's pages.
pub(crate) fn man(arguments: &Man) -> Outcome {
    let folder = &arguments.folder;
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::at(folder, "it is not a folder; give the path of a folder"));
    }
    let made = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
    made.map_err(|error| Failure::io(folder, &error))
}
