//! The folder of an append-only file of Redis 7: its manifest says which files there are, and in which order.

use super::TransferError;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Bytes of a manifest.
const BYTES_MAX: u64 = 1 << 20;
/// How often a folder is read again, since Redis was just rewriting it.
const TRIES: u32 = 20;

/// The files of a folder, opened: their data stays while Redis removes them.
pub(super) struct Parts {
    pub(super) files: Vec<(String, File)>,
}

/// Opens the files that the folder's manifest names. Redis may be writing: what it rewrites meanwhile is noticed.
pub(super) fn open(folder: &Path) -> Result<Parts, TransferError> {
    for _ in 0..TRIES {
        let text = read(folder)?;
        let names = names(&text).map_err(|(line, what)| TransferError::Folder {
            path: folder.to_owned(),
            what: format!("line {line} of its manifest: {what}"),
        })?;
        let files: Result<Vec<_>, _> = names
            .iter()
            .map(|name| File::open(folder.join(name)).map(|file| (name.clone(), file)))
            .collect();
        // The same manifest after all were opened: they belong together.
        match files {
            Ok(files) if read(folder)? == text => return Ok(Parts { files }),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if read(folder)? == text {
                    let what = "a file that its manifest names is not there; copy the folder again"
                        .to_owned();
                    return Err(TransferError::Folder { path: folder.to_owned(), what });
                }
            }
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let what = "it is being rewritten all the time; try again".to_owned();
    Err(TransferError::Folder { path: folder.to_owned(), what })
}

/// The text of the only manifest.
fn read(folder: &Path) -> Result<String, TransferError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // One that is being written has another name until it is whole.
        let is_whole =
            !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"temp-"));
        if is_whole && path.extension().is_some_and(|extension| extension == "manifest") {
            found.push(path);
        }
    }
    let [path] = found.as_slice() else {
        let what = match found.len() {
            0 => "there is no manifest in it: give Redis's folder appendonlydir",
            _ => "there are several manifests in it: leave one of them",
        };
        return Err(TransferError::Folder { path: folder.to_owned(), what: what.to_owned() });
    };
    let mut text = String::new();
    File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The names of the base and of those that follow it, in their order.
fn names(text: &str) -> Result<Vec<String>, (usize, &'static str)> {
    let (mut base, mut following) = (None, Vec::new());
    for (line, number) in text.lines().zip(1..) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let value = |name: &str| {
            words.chunks(2).find(|pair| pair[0] == name).and_then(|pair| pair.get(1)).copied()
        };
        let name = value("file").ok_or((number, "no file is named"))?;
        if name.contains(['/', '"', '\\']) || name.starts_with('.') {
            return Err((number, "the name of a file is not one of Redis's"));
        }
        let place: u64 =
            value("seq").and_then(|place| place.parse().ok()).ok_or((number, "no seq"))?;
        match value("type") {
            Some("b") if base.is_some() => return Err((number, "there is a base already")),
            Some("b") => base = Some(name.to_owned()),
            Some("i") => following.push((place, name.to_owned())),
            Some("h") => {}
            _ => return Err((number, "no known type")),
        }
    }
    following.sort();
    Ok(base.into_iter().chain(following.into_iter().map(|(_, name)| name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_read() {
        let text = "file a.1.base.rdb seq 1 type b\nfile a.2.incr.aof seq 2 type i\nfile a.0.h seq 0 type h\n\
                    file a.1.incr.aof seq 1 type i\n";
        assert_eq!(names(text).unwrap(), ["a.1.base.rdb", "a.1.incr.aof", "a.2.incr.aof"]);
        assert_eq!(names("").unwrap(), [""; 0]);
        for (text, line) in [
            ("seq 1 type b", 1),
            ("file ../a seq 1 type b", 1),
            ("\nfile a seq x type b", 2),
            ("file a seq 1 type z", 1),
            ("file a seq 1", 1),
            ("file a seq 1 type b\nfile b seq 1 type b", 2),
            ("file", 1),
        ] {
            assert_eq!(names(text).map_err(|(line, _)| line), Err(line), "{text}");
        }
    }
}
