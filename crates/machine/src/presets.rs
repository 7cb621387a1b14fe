//! The machines that come with the program: the files of `machines/`, built in.

use crate::{ConfigError, MachineConfig};

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../machines/", $name, ".toml")))),*]
    };
}

/// Names and texts, by name.
const PRESETS: &[(&str, &str)] = presets![
    "archapt",
    "archapt-dram",
    "cxl",
    "ddr4",
    "ddr5",
    "dual-page",
    "dual-page-256",
    "loc",
    "loc-clflush",
    "optane",
    "pcm",
    "pcm-isscc",
    "pcm-thynvm",
    "persistence-sync",
    "persistence-sync-persistent",
    "reram",
    "side-by-side",
    "stt-ram",
    "tiny",
    "tiny-dram",
    "tiny-htm",
];

/// Files larger than this are refused.
const LARGEST_FILE: u64 = 1 << 20;

/// The names of all machines that are built in, ascending.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The TOML of a machine that is built in.
pub fn text(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A machine that is built in, or one described by a file: a name with a `/` in it or with the
/// ending `.toml` is a path.
///
/// # Errors
/// `Unknown`, `Unreadable`, `Parse`, `Invalid`.
pub fn load(name_or_path: &str) -> Result<MachineConfig, ConfigError> {
    if let Some(text) = text(name_or_path) {
        return MachineConfig::parse(name_or_path, text);
    }
    if !name_or_path.contains('/') && !name_or_path.ends_with(".toml") {
        let known = names().collect::<Vec<_>>().join(", ");
        return Err(ConfigError::Unknown { name: name_or_path.to_owned(), known });
    }
    let text = read(name_or_path)
        .map_err(|error| ConfigError::Unreadable { path: name_or_path.to_owned(), error })?;
    MachineConfig::parse(name_or_path, &text)
}

fn read(path: &str) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(LARGEST_FILE).read_to_string(&mut text)?;
    Ok(text)
}
