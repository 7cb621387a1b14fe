//! `completions` and `man`: a command line described for shells and `man`.

use crate::failure::{Failure, Outcome};
use clap::{Args, Command};
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;

/// The arguments of `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// The arguments of `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Folder for the pages: one for the program, and one for each command; it is made if it is not there
    folder: PathBuf,
}

/// Prints a script that completes the command line in a shell.
///
/// # Errors
/// When the output cannot be written to.
pub fn completions(arguments: &Completions, mut command: Command) -> Outcome {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    let mut out = std::io::stdout().lock();
    out.write_all(&script)?;
    Ok(out.flush()?)
}

/// Writes the manual's pages.
///
/// # Errors
/// When they cannot be written.
pub fn man(arguments: &Man, command: Command) -> Outcome {
    let folder = &arguments.folder;
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::at(folder, "it is not a folder; give the path of a folder"));
    }
    let made =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    made.map_err(|error| Failure::io(folder, &error))
}
