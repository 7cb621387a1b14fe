//! The configuration file of `perdura serve`: a table of TOML whose keys are the names of options.
//!
//! There is no list of keys: they are the options that clap knows. The file becomes arguments that stand before the
//! command line's own, and clap parses all of them.

use super::Arguments;
use crate::failure::{Failure, Outcome};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Args, Command, FromArgMatches};
use std::any::TypeId;
use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Bytes of a file.
const MOST: u64 = 1 << 20;

/// The options of the file at `path` and of the rest of the command line, `line`, together: of an option that both
/// have, the command line's value counts.
pub(super) fn merged(path: &Path, line: impl Iterator<Item = OsString>) -> Outcome<Arguments> {
    let text = super::read_text(path, MOST)?;
    let wrong = |what| Failure::usage(format!("{}: {what}", path.display()));
    let file = arguments(&text).map_err(wrong)?;
    let matches = command().try_get_matches_from(file.into_iter().map(OsString::from).chain(line));
    let merged = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    merged.map_err(|error| wrong(said(&error)))
}

/// The options, where one that is given again replaces the earlier value.
fn command() -> Command {
    Arguments::augment_args(Command::new("serve")).no_binary_name(true).args_override_self(true)
}

/// Whether an option can be in the file: all but the file's own name, and those for crash tests.
fn is_key(option: &Arg) -> bool {
    option.get_id() != "config" && !option.is_hide_short_help_set()
}

/// The arguments that a file's text stands for.
fn arguments(text: &str) -> Result<Vec<String>, String> {
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let place = error.span().map_or(1, |span| line(span.start));
        format!("line {place}: {}", error.message())
    })?;
    let command = command();
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let mut arguments = Vec::new();
    for (key, value) in entries {
        let name = key.get_ref().as_ref();
        let argument = argument(&command, name, value.get_ref());
        arguments.push(
            argument
                .map_err(|wrong| format!("line {}: {name}: {wrong}", line(key.span().start)))?,
        );
    }
    Ok(arguments)
}

/// One key's argument.
fn argument(command: &Command, key: &str, value: &DeValue<'_>) -> Result<String, String> {
    let has_name = |option: &&Arg| {
        let aliases = option.get_all_aliases().unwrap_or_default();
        option.get_long() == Some(key) || aliases.contains(&key)
    };
    let option = command.get_arguments().filter(|option| is_key(option)).find(has_name);
    let option = option.ok_or_else(|| unknown(command, key))?;
    let argument = format!("--{key}={}", text_of(option, value)?);
    match command.clone().try_get_matches_from([&argument]) {
        Ok(_) => Ok(argument),
        Err(error) => Err(error.source().map_or_else(|| said(&error), |why| why.to_string())),
    }
}

/// The key to write in place of an unknown one.
fn unknown(command: &Command, key: &str) -> String {
    let error = command.clone().try_get_matches_from([format!("--{key}=")]).err();
    let similar = error.and_then(|error| match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(option)) => Some(option.trim_start_matches('-').to_owned()),
        _ => None,
    });
    let is_there = |name: &String| {
        command.get_arguments().any(|option| is_key(option) && option.get_long() == Some(name))
    };
    let similar = similar.filter(is_there).map(|name| format!("; did you mean '{name}'?"));
    format!(
        "there is no such key{} keys are the options that `perdura serve --help` lists, without --",
        similar.as_deref().unwrap_or(";")
    )
}

/// A value as it would be on the command line.
fn text_of(option: &Arg, value: &DeValue<'_>) -> Result<String, String> {
    let kind = option.get_value_parser().type_id();
    let is = |other: TypeId| kind == other;
    let (is_flag, is_size) = (is(TypeId::of::<bool>()), is(TypeId::of::<u64>()));
    let is_count =
        [TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<i64>()].into_iter().any(is);
    let (wanted, fits) = match value {
        _ if is_flag => ("true or false", value.is_bool()),
        _ if is_size => {
            ("a text such as \"1G\", or a whole number", value.is_str() || value.is_integer())
        }
        _ if is_count => ("a whole number", value.is_integer()),
        _ => ("a text, in quotes", value.is_str()),
    };
    let wrong = || format!("this is of the type {}; give {wanted}", value.type_str());
    let text = match value {
        _ if !fits => return Err(wrong()),
        DeValue::String(text) => text.to_string(),
        DeValue::Boolean(on) => on.to_string(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_err(|_| format!("{number} is too large"))?
            .to_string(),
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            return Err(wrong());
        }
    };
    Ok(text)
}

/// Clap's complaint, in a line, with the possible values.
fn said(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let what = line.split_once(" for '--").map_or(line, |(what, _)| what);
    let similar = match error.get(ContextKind::SuggestedValue) {
        Some(ContextValue::String(value)) => format!("; did you mean '{value}'?"),
        _ => String::new(),
    };
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) if values.is_empty() => {
            format!("{what}, and this is empty; give one, or leave the line out")
        }
        Some(ContextValue::Strings(values)) => {
            format!("{what}; possible values: {}{similar}", values.join(", "))
        }
        _ => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, line: &[&str]) -> Result<Arguments, String> {
        let file = arguments(text)?;
        let all = file.into_iter().chain(line.iter().map(|&one| one.to_owned()));
        let matches = command().try_get_matches_from(all).map_err(|error| error.to_string())?;
        Arguments::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_overrides_the_file() {
        let text = "size = \"1G\"\nmax-clients = 7\nchecksums = true\nrequirepass = \"a\"\n";
        let read = parse(text, &[]).unwrap();
        assert_eq!((read.size, read.max_clients, read.checksums), (Some(1 << 30), 7, true));
        let line = ["--size", "64M", "--checksums=false", "--requirepass-file", "b"];
        let read = parse(text, &line).unwrap();
        assert_eq!((read.size, read.max_clients, read.checksums), (Some(64 << 20), 7, false));
        assert_eq!((read.requirepass, read.requirepass_file), (None, Some("b".into())));
        assert_eq!(parse("size = 1_048_576\nforce = false", &[]).unwrap().size, Some(1 << 20));
        assert_eq!(parse("slowlog-log-slower-than = -1", &[]).unwrap().slowlog_log_slower_than, -1);
        assert_eq!(parse("", &["--force"]).map(|read| read.force), Ok(true));
    }

    #[test]
    fn errors_name_their_line() {
        for (text, told) in [
            (
                "\nmax-client = 1",
                "line 2: max-client: there is no such key; did you mean 'max-clients'?",
            ),
            (
                "max-clients = \"many\"",
                "line 1: max-clients: this is of the type string; give a whole",
            ),
            ("# note\n\nthreads = 0", "line 3: threads: 0 is not in 1..=256"),
            ("size = \"1X\"", "line 1: size: '1X' is not a size"),
            ("size = 1.5", "line 1: size: this is of the type float"),
            ("checksums = 1", "line 1: checksums: this is of the type integer; give true or false"),
            ("pool = 1", "line 1: pool: this is of the type integer; give a text"),
            (
                "log-level = \"loud\"",
                "line 1: log-level: invalid value 'loud'; possible values: error, warn",
            ),
            (
                "size = \"1G\"\nrequirepass = \"\"",
                "line 2: requirepass: a value is required, and this is empty; give one, or",
            ),
            ("engine = [\"redo\"]", "line 1: engine: this is of the type array"),
            ("[pool]\nsize = 1", "line 1: pool: this is of the type table"),
            ("size = 99999999999999999999", "line 1: size: 99999999999999999999 is too large"),
            ("threads = 1\nthreads = 2", "line 2: duplicate key"),
            ("threads 1", "line 1: "),
            ("config = \"other\"", "line 1: config: there is no such key"),
            ("stop-after = 1", "line 1: stop-after: there is no such key"),
            ("help = true", "line 1: help: there is no such key"),
        ] {
            let wrong = arguments(text).unwrap_err();
            assert!(wrong.starts_with(told), "{text:?}: {wrong}");
        }
    }

    /// The unit file runs a valid command line.
    #[test]
    fn the_unit_file_has_options_that_there_are() {
        let text = include_str!("../../../../../examples/perdura.service");
        let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let words: Vec<&str> =
            line.split(' ').skip_while(|word| *word != "serve").skip(1).collect();
        let read = parse("", &words).unwrap();
        assert_eq!(read.requirepass_file, Some("%d/password".into()));
        assert_eq!(read.config, Some("/etc/perdura/perdura.toml".into()));
    }

    /// The example says what its own values are, and has every key: its commented lines are right as well.
    #[test]
    fn the_example_has_every_key() {
        let text = include_str!("../../../../../examples/perdura.toml");
        let read = parse(text, &[]).unwrap();
        assert_eq!(read.max_clients, 10_000);
        let mut keys = Vec::new();
        for line in text.lines() {
            let line = line.strip_prefix('#').unwrap_or(line);
            if let Some((key, _)) = line.split_once(" = ")
                && !line.starts_with(' ')
            {
                assert_eq!(arguments(line).map(|found| found.len()), Ok(1), "{line}");
                keys.push(key.to_owned());
            }
        }
        for option in command().get_arguments().filter(|option| is_key(option)) {
            let name = option.get_long().unwrap_or_default();
            assert!(keys.iter().any(|key| key == name), "{name} is not in examples/perdura.toml");
        }
    }
}
