//! The ACL file: a line for each user, in Redis's format. It is replaced as a whole, and read as a whole or not at all.

use super::rules::{Wrong, merged};
use super::user::{DEFAULT, User};
use perdura::draft::{Draft, DraftError};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Bytes of the file.
const BYTES_MAX: u64 = 64 << 20;

/// Users by their names.
pub(crate) type Users = BTreeMap<Vec<u8>, Arc<User>>;

/// Reads a file's users.
///
/// # Errors
/// What is wrong, with the file's name and the line's number.
pub(super) fn load(path: &Path, all_channels: bool) -> Result<Users, String> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut text));
    if let Err(error) = read {
        let path = path.display();
        return Err(format!("Error loading ACLs, opening file '{path}': {}", plain(&error)));
    }
    if text.len() as u64 > BYTES_MAX {
        return Err(format!("{}: it is larger than {BYTES_MAX} bytes", path.display()));
    }
    parse(&text, &path.display().to_string(), all_channels)
}

/// An error of the system as C names it, without its number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn parse(text: &[u8], path: &str, all_channels: bool) -> Result<Users, String> {
    let (mut users, mut wrong) = (Users::new(), String::new());
    for (line, number) in text.split(|&byte| byte == b'\n').zip(1..) {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        let start = line.iter().position(|byte| !is_space(byte)).unwrap_or(line.len());
        let end = line.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
        if start == end {
            continue;
        }
        match user(&line[start..end], all_channels) {
            Ok(user) if users.contains_key(&user.name) => {
                let name = String::from_utf8_lossy(&user.name);
                wrong += &format!("WARNING: Duplicate user '{name}' found on line {number}. ");
            }
            Ok(user) => {
                users.insert(user.name.clone(), Arc::new(user));
            }
            Err(LineError(text)) => wrong += &format!("{path}:{number}{text} "),
        }
    }
    if !wrong.is_empty() {
        wrong += "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
        return Err(wrong);
    }
    users.entry(DEFAULT.to_vec()).or_insert_with(|| Arc::new(User::anybody()));
    Ok(users)
}

/// What is wrong with a line, after its number.
struct LineError(String);

/// The user of one line.
fn user(line: &[u8], all_channels: bool) -> Result<User, LineError> {
    let mut words = line.split(|&byte| byte == b' ');
    let name = match (words.next(), words.next()) {
        (Some(b"user"), Some(name)) => name,
        _ => {
            let text = " should start with user keyword followed by the username.";
            return Err(LineError(text.to_owned()));
        }
    };
    if super::has_spaces(name) {
        let name = String::from_utf8_lossy(name);
        return Err(LineError(format!(": username '{name}' contains invalid characters.")));
    }
    let rules = merged(words)
        .map_err(|_| LineError(": Unmatched parenthesis in selector definition.".to_owned()))?;
    let mut user = User::new(name, all_channels);
    for rule in rules {
        user.apply(rule.trim_ascii(), all_channels).map_err(|why| match why {
            // What is not known has no password in it.
            Wrong::Unknown => {
                let rule = String::from_utf8_lossy(&rule);
                LineError(format!(": Error in applying operation '{rule}': {}.", why.text()))
            }
            _ => LineError(format!(": {}.", why.text())),
        })?;
    }
    Ok(user)
}

/// Replaces the file by one with these users: the old one or the new one is there after a crash.
pub(super) fn save(path: &Path, users: &Users) -> Result<(), DraftError> {
    let mut text = Vec::new();
    for user in users.values() {
        text.extend_from_slice(&user.describe());
        text.push(b'\n');
    }
    let draft = Draft::start(path, true)?.of_mode(0o600);
    let mut file = draft.create()?;
    file.write_all(&text).map_err(|source| DraftError::Io {
        path: path.to_owned(),
        doing: "write the file",
        source,
    })?;
    draft.publish(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        parse(text.as_bytes(), "f", false).unwrap_err()
    }

    #[test]
    fn errors_name_their_lines() {
        let none = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
        for (text, expected) in [
            (
                "user a on\n\nusers b\n",
                "f:3 should start with user keyword followed by the username. ",
            ),
            ("user", "f:1 should start with user keyword followed by the username. "),
            (
                "user a on +nothing",
                "f:1: Error in applying operation '+nothing': Unknown command or category name in ACL. ",
            ),
            (
                "user a >pass #12",
                "f:1: The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters. ",
            ),
            ("user a (+get ~x", "f:1: Unmatched parenthesis in selector definition. "),
            ("user a\nuser a", "WARNING: Duplicate user 'a' found on line 2. "),
            ("user a\tb on", "f:1: username 'a\tb' contains invalid characters. "),
        ] {
            assert_eq!(wrong(text), format!("{expected}{none}"));
        }
        assert!(wrong("x\ny").starts_with("f:1 should"));
        assert!(wrong("x\ny").contains("f:2 should"));
    }

    #[test]
    fn a_saved_file_has_the_same_users() {
        let text = "user alice on nopass %R~r* ~b* &c +@all -@admin +select|0 (~x +get) ( +@read %W~y )\r\n\
                    user bob off >secret -@all\nuser default off";
        let users = parse(text.as_bytes(), "f", false).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("acl");
        for _ in 0..2 {
            save(&path, &users).unwrap();
            assert_eq!(load(&path, false).unwrap(), users);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = load(&folder.path().join("other"), false).unwrap_err();
        assert!(error.ends_with("': No such file or directory"), "{error}");
    }

    #[test]
    fn a_file_without_it_has_the_user_that_everybody_is() {
        let users = parse(b"user a", "f", false).unwrap();
        assert_eq!(*users[DEFAULT], User::anybody());
        let line = String::from_utf8(users[DEFAULT].describe()).unwrap();
        assert_eq!(line, "user default on nopass sanitize-payload ~* &* +@all");
    }

    #[test]
    fn no_text_panics() {
        use perdura_testing::seeds;
        let words = [
            "user ", "a", "(", ")", "+", "-", "@", "~", "%R", "&", "\n", "|", "get", "\0",
            "\u{ff}", " ", ">", "#",
        ];
        for seed in seeds(0, 20) {
            let mut random = perdura_memory::random::SplitMix64::new(seed);
            let text: String =
                (0..200).map(|_| words[random.below(words.len() as u64) as usize]).collect();
            let _ = parse(text.as_bytes(), "f", random.below(2) == 0);
        }
    }
}
