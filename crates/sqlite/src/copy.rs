//! Moves databases between pools and ordinary files of SQLite. None of this calls SQLite.
//!
//! An import builds the database under another name, which it gives up at its end, in one transaction: so what has the
//! right name is whole, whatever happens meanwhile.

use crate::codes;
use crate::commit::{self, Way};
use crate::database::Database;
use crate::pages::{Header, PREFIX, is_page_size};
use crate::session::Handle;
use crate::stage::Stage;
use crate::wal::{self, Wal};
use perdura::{Error, Pool, Root};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What the name of a database that is being imported ends with.
const UNFINISHED: &str = " (being imported)";
/// Bytes that an import commits at a time.
const PART: u64 = 4 << 20;

/// Why a database could not be moved.
#[derive(Debug)]
#[non_exhaustive]
pub enum CopyError {
    /// The pool.
    Pool(Error),
    /// A file.
    Io(PathBuf, io::Error),
    /// Something else, with a remedy.
    Refused(String),
}

impl std::fmt::Display for CopyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CopyError::Pool(error) => error.fmt(f),
            CopyError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            CopyError::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for CopyError {}

impl From<Error> for CopyError {
    fn from(error: Error) -> Self {
        CopyError::Pool(error)
    }
}

/// A moved database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its bytes.
    pub bytes: u64,
    /// Bytes of a page.
    pub page_size: u64,
    /// Its pages whose newest bytes were in a write-ahead log.
    pub from_wal: u64,
}

fn at(path: &Path) -> impl Fn(io::Error) -> CopyError + '_ {
    move |error| CopyError::Io(path.to_owned(), error)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// An ordinary database file that nothing else uses.
struct Source {
    file: File,
    log: Vec<u8>,
    wal: Wal,
    page_size: u64,
    length: u64,
}

impl Source {
    fn open(path: &Path) -> Result<Self, CopyError> {
        // SQLite's locks are on bytes of the file, so that a lock of all of it collides with any.
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(at(path))?;
        lock_whole(&file).map_err(|_| {
            CopyError::Refused(format!(
                "{}: another program has the database open; close it there first",
                path.display()
            ))
        })?;
        let journal = beside(path, "-journal");
        let mut head = [0; 8];
        let is_hot = File::open(&journal).and_then(|file| file.read_exact_at(&mut head, 0)).is_ok();
        if is_hot && head != [0; 8] {
            return Err(CopyError::Refused(format!(
                "{}: a transaction was interrupted; open the database once with SQLite, which rolls it back",
                journal.display()
            )));
        }
        let mut header = [0; 100];
        let length = file.metadata().map_err(at(path))?.len();
        let is_read = file.read_exact_at(&mut header, 0).is_ok();
        let page_size = match u64::from(u16::from_be_bytes([header[16], header[17]])) {
            1 => 65536,
            other => other,
        };
        if !is_read || !header.starts_with(b"SQLite format 3\0") || !is_page_size(page_size) {
            return Err(CopyError::Refused(format!(
                "{}: this is no database of SQLite",
                path.display()
            )));
        }
        let log = match std::fs::read(beside(path, "-wal")) {
            Ok(log) => log,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(CopyError::Io(beside(path, "-wal"), error)),
        };
        let wal = wal::read(&log, page_size as usize);
        if wal.count.is_none() && length < whole_length(&header, length, page_size) {
            return Err(CopyError::Refused(format!(
                "{}: the database is cut: it has {length} bytes of {}; copy it again from where it is whole",
                path.display(),
                whole_length(&header, length, page_size)
            )));
        }
        let length = wal.count.map_or(length, |count| count * page_size);
        Ok(Source { file, log, wal, page_size, length })
    }

    fn page(&self, page: u64, to: &mut [u8]) -> io::Result<()> {
        match self.wal.pages.get(&page) {
            Some(&at) => to.copy_from_slice(&self.log[at..at + to.len()]),
            None => self.file.read_exact_at(to, page * self.page_size)?,
        }
        if page == 0 {
            // Neither reading nor writing needs a write-ahead log.
            to[18..20].fill(1);
        }
        Ok(())
    }
}

/// Bytes that a database file should have, by its header if that is current, and at least whole pages.
fn whole_length(header: &[u8; 100], length: u64, page_size: u64) -> u64 {
    let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap_or_default());
    // SQLite, too, believes the count of pages only if the change counter is the one of when it was written.
    let count = if number(24) == number(92) { u64::from(number(28)) } else { 0 };
    length.next_multiple_of(page_size).max(count * page_size)
}

/// Locks all of a file, if no other process has a lock of any part of it.
fn lock_whole(file: &File) -> io::Result<()> {
    use rustix::fs::{FlockOperation, fcntl_lock};
    Ok(fcntl_lock(file, FlockOperation::NonBlockingLockExclusive)?)
}

fn taken(name: &str) -> CopyError {
    let said = format!("the pool has a database '{name}' already; give another name");
    CopyError::Refused(said)
}

/// Imports an ordinary database file, which nothing else may have open, with its write-ahead log if it has one. The
/// file is not changed. Meanwhile no connection may open a database of the new name, nor another import use it.
///
/// # Errors
/// When there is a database of this name, or no room; when the file is in use, or no database.
pub fn import(pool: &Pool, name: &str, path: &Path) -> Result<Moved, CopyError> {
    let source = Source::open(path)?;
    let mut handle = Handle::Pool(pool.session()?);
    let (root, unfinished) = (format!("{PREFIX}{name}"), format!("{name}{UNFINISHED}"));
    if handle.read(|tx| tx.root(&root))?.is_some() {
        return Err(taken(name));
    }
    let target = Database::open(&mut handle, &unfinished)?;
    remove(&mut handle, &target)?;
    let target = Database::open(&mut handle, &unfinished)?;
    let mut page = vec![0; source.page_size as usize];
    let mut done = 0;
    while done < source.length {
        let mut stage = Stage::default();
        stage.begin(source.page_size, done);
        let end = (done + PART).min(source.length);
        for number in done / source.page_size..end.div_ceil(source.page_size) {
            source.page(number, &mut page).map_err(at(path))?;
            stage
                .write(number * source.page_size, &page, |_, _| Ok(()))
                .map_err(codes::no_memory)?;
        }
        done = stage.length;
        commit::commit(&mut handle, &[(&target, &stage)], Way::Least)?;
        target.state().versions.settle();
    }
    let is_taken = handle.transaction(|tx| {
        if let Some(found) = tx.root(&target.root)? {
            // A connection may have made one meanwhile.
            if tx.root(&root)?.is_some() {
                return Ok(true);
            }
            tx.set_root(&root, found)?;
            tx.set_root(&target.root, Root { at: 0, ..found })?;
        }
        Ok(false)
    })?;
    if is_taken {
        return Err(taken(name));
    }
    Ok(Moved {
        bytes: source.length,
        page_size: source.page_size,
        from_wal: source.wal.pages.len() as u64,
    })
}

/// Removes a database that no connection has open.
fn remove(handle: &mut Handle, database: &Database) -> Result<(), Error> {
    let header = database.state().versions.header;
    if header.at == 0 {
        return Ok(());
    }
    let mut stage = Stage::default();
    stage.begin(header.page_size, header.length);
    stage.truncate(0, |_, _| Ok(())).map_err(codes::no_memory)?;
    commit::commit(handle, &[(database, &stage)], Way::Least)?;
    database.state().versions.settle();
    commit::reap(handle, database, 0)?;
    handle.transaction(|tx| {
        let Some(root) = tx.root(&database.root)? else { return Ok(()) };
        let mut nodes = vec![root.at];
        let header = Header::read(tx, root)?;
        let (mut inner, mut leaves) = (Vec::new(), Vec::new());
        header.walk(
            tx,
            &mut |node| {
                inner.push(node);
                Ok(())
            },
            &mut |_, leaf, _| {
                leaves.push(leaf);
                Ok(())
            },
        )?;
        nodes.extend(inner.into_iter().chain(leaves));
        nodes.into_iter().try_for_each(|node| tx.free(node))?;
        tx.set_root(&database.root, Root { at: 0, ..root })
    })
}

/// Exports a database to a new file, which any SQLite can open. No connection may have the database open meanwhile.
///
/// # Errors
/// When there is no such database, or the file exists or cannot be written.
pub fn export(pool: &Pool, name: &str, path: &Path) -> Result<Moved, CopyError> {
    let mut handle = Handle::Pool(pool.session()?);
    let database = Database::open(&mut handle, name)?;
    let shape = database.state().versions.pin();
    if database.state().versions.header.at == 0 {
        return Err(CopyError::Refused(format!("the pool has no database '{name}'")));
    }
    let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(at(path))?;
    let mut writer = BufWriter::new(file);
    let mut page = vec![0; shape.page_size as usize];
    for number in 0..shape.length.div_ceil(shape.page_size) {
        commit::read_page(&mut handle, &database, (shape.version, number, 0), &mut page)?;
        let there = (shape.length - number * shape.page_size).min(shape.page_size) as usize;
        writer.write_all(&page[..there]).map_err(at(path))?;
    }
    let file = writer.into_inner().map_err(|error| at(path)(error.into_error()))?;
    file.sync_all().map_err(at(path))?;
    Ok(Moved { bytes: shape.length, page_size: shape.page_size, from_wal: 0 })
}

/// Checks what SQLite keeps in a database, by its `PRAGMA integrity_check`. Returns the problems.
///
/// # Errors
/// When SQLite cannot open the database.
#[cfg(feature = "rusqlite")]
pub fn check(pool: &Path, name: &str) -> Result<Vec<String>, CopyError> {
    let refused = |what: &dyn std::fmt::Display| {
        CopyError::Refused(format!("SQLite cannot check the database '{name}': {what}"))
    };
    crate::register().map_err(|code| refused(&format!("code {code}")))?;
    let path = match name {
        crate::MAIN => pool.to_owned(),
        name => pool.join(name),
    };
    let problems = || {
        let uri = format!("file:{}?vfs=perdura&mode=rw", escaped(&path));
        let db = rusqlite::Connection::open(uri)?;
        let mut check = db.prepare("PRAGMA integrity_check")?;
        let rows = check.query_map((), |row| row.get::<_, String>(0))?;
        rows.collect::<rusqlite::Result<Vec<String>>>()
    };
    let problems = problems().map_err(|error| refused(&error))?;
    Ok(problems.into_iter().filter(|problem| problem != "ok").collect())
}

/// A path in a URI.
#[cfg(feature = "rusqlite")]
fn escaped(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    let text = bytes.map(|&byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02x}"),
    });
    text.collect()
}
