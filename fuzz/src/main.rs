//! Runs files through a target, or writes a target's seeds as files, for libFuzzer and the like.
//!
//!     perdura-fuzz TARGET FILE...
//!     perdura-fuzz TARGET --seeds FOLDER

use perdura_fuzz::{TARGETS, Target};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [name, "--seeds", folder] => find(name).and_then(|target| write_seeds(target, folder)),
        [name, ref files @ ..] if !files.is_empty() => {
            find(name).and_then(|target| files.iter().try_for_each(|file| replay(target, file)))
        }
        _ => Err(format!("perdura-fuzz TARGET FILE..., or TARGET --seeds FOLDER; {}", names())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn names() -> String {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    format!("the targets are {}", names.join(", "))
}

fn find(name: &str) -> Result<&'static Target, String> {
    perdura_fuzz::target(name).ok_or_else(|| format!("there is no target '{name}': {}", names()))
}

fn replay(target: &Target, file: &str) -> Result<(), String> {
    let bytes = std::fs::read(file).map_err(|error| format!("cannot read '{file}': {error}"))?;
    println!("{file}: {} bytes", bytes.len());
    (target.run)(&bytes);
    Ok(())
}

fn write_seeds(target: &Target, folder: &str) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make '{folder}': {error}"))?;
    for (index, seed) in (target.seeds)().into_iter().enumerate() {
        let file = Path::new(folder).join(format!("seed-{index:03}"));
        let cannot = |error| format!("cannot write '{}': {error}", file.display());
        std::fs::write(&file, seed).map_err(cannot)?;
    }
    Ok(())
}
