//! Names, and the pools that are open in this process.
//!
//! A path is a pool's, and means the pool's database `main`. A path whose parent is a file means the database with the
//! last part's name in the pool that the parent is: `app.pool/orders`. So SQLite sees a name of its own for each
//! database, and needs no parameters to tell them apart.
//!
//! Invariant: a pool is open once in this process, as long as a connection has one of its databases. It is known by its
//! file: another path of the same file leads to it, and one whose file was replaced does not.

use crate::codes::{CANTOPEN, Code, PERM, Result, of_error, of_open_error};
use crate::connection::{Group, Locking};
use crate::database::Database;
use crate::session::{Handle, Source};
use perdura::{EngineKind, Options, Pool};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The database that a pool's own path means.
pub const MAIN: &str = "main";
/// The most bytes of a database's name: a root's, less the prefix.
const LONGEST: usize = 200;
/// The size to which a pool that is created here may grow, unless the URI says otherwise.
const SIZE: u64 = 16 << 30;

/// How a pool that does not exist is created: the URI's parameters.
#[derive(Default)]
pub(crate) struct Creation {
    pub(crate) create: bool,
    pub(crate) size: Option<String>,
    pub(crate) log: Option<String>,
    pub(crate) engine: Option<String>,
}

/// A pool, and what is open in it.
pub(crate) struct OpenPool {
    /// The session of the connections' commits, if it is not lent: those of several sessions are in several places of the
    /// log, and a sync would write a block for each. It ends with the last connection.
    committing: Mutex<Option<Handle>>,
    connections: AtomicUsize,
    pub(crate) source: Source,
    /// Whether the process may only read the pool's file.
    pub(crate) read_only: bool,
    databases: Arc<Mutex<HashMap<String, Weak<Database>>>>,
    /// By the address of SQLite's connection.
    groups: Mutex<HashMap<usize, Weak<Group>>>,
}

/// A file: its device and its number there, which no other file gets while this one is open.
type FileId = (u64, u64);

/// The pools, by their files.
static POOLS: Mutex<Option<HashMap<FileId, Weak<OpenPool>>>> = Mutex::new(None);

/// The heaps whose sessions are lent, by the paths that stand for them.
static LENT: Mutex<Option<HashMap<PathBuf, Arc<OpenPool>>>> = Mutex::new(None);

/// A heap that connections find under a path while this value lives.
pub(crate) struct Lent<'a>(&'a Path);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let gone = lock(&LENT).as_mut().and_then(|lent| lent.remove(self.0));
        drop(gone);
    }
}

/// Lets connections find a heap under a path that is no file's.
pub(crate) fn insert_lent(path: &Path, pool: Arc<OpenPool>) -> Lent<'_> {
    lock(&LENT).get_or_insert_default().insert(path.to_owned(), pool);
    Lent(path)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path of the pool, and the database's name.
pub(crate) fn split(path: &Path) -> Result<(PathBuf, String)> {
    let own = || (path.to_owned(), MAIN.to_owned());
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(own()) };
    if !parent.is_file() {
        return Ok(own());
    }
    let name = name.to_str().filter(|name| name.len() <= LONGEST).ok_or(CANTOPEN)?;
    Ok((parent.to_owned(), name.to_owned()))
}

/// How the connection at this address locks.
fn locking(address: usize) -> Arc<Locking> {
    static LOCKING: Mutex<BTreeMap<usize, Weak<Locking>>> = Mutex::new(BTreeMap::new());
    let mut all = lock(&LOCKING);
    if let Some(known) = all.get(&address).and_then(Weak::upgrade) {
        return known;
    }
    all.retain(|_, locking| locking.strong_count() > 0);
    let locking = Arc::default();
    all.insert(address, Arc::downgrade(&locking));
    locking
}

/// Whether a parameter's value means yes, as in SQLite.
pub(crate) fn is_on(text: &str) -> bool {
    let yes = ["yes", "true", "on"].iter().any(|yes| text.eq_ignore_ascii_case(yes));
    yes || text.parse::<i64>().is_ok_and(|number| number != 0)
}

/// The pool at a path, open already or opened now.
pub(crate) fn open(path: &Path, how: &Creation) -> Result<Arc<OpenPool>> {
    if let Some(lent) = lock(&LENT).as_ref().and_then(|lent| lent.get(path)) {
        return Ok(lent.clone());
    }
    let mut pools = lock(&POOLS);
    let pools = pools.get_or_insert_default();
    let open = file_id(path).and_then(|id| pools.get(&id));
    if let Some(open) = open.and_then(Weak::upgrade) {
        return Ok(open);
    }
    match open_pool(path, how) {
        // As SQLite does with files that it may not write.
        Err(PERM) => {
            let pool = Options::new().open_unchanged(path);
            Ok(insert(pools, pool.map_err(|error| of_open_error(&error))?, true))
        }
        pool => Ok(insert(pools, pool?, false)),
    }
}

fn insert(
    pools: &mut HashMap<FileId, Weak<OpenPool>>,
    pool: Pool,
    read_only: bool,
) -> Arc<OpenPool> {
    let id = file_id(pool.path());
    let open = Arc::new(OpenPool::new(Source::Pool(pool), read_only, Arc::default()));
    pools.retain(|_, pool| pool.strong_count() > 0);
    pools.extend(id.map(|id| (id, Arc::downgrade(&open))));
    open
}

/// A pool that the program has opened itself, with options of its own: connections find it under its path while this
/// value lives.
pub struct Served(Option<Arc<OpenPool>>);

impl Drop for Served {
    fn drop(&mut self) {
        close(&mut self.0);
    }
}

/// Lets connections open the databases of a pool that the program has opened.
pub fn serve(pool: Pool) -> Served {
    Served(Some(insert(lock(&POOLS).get_or_insert_default(), pool, false)))
}

/// Lets go of a pool. The last to do so closes it, before anybody can open it again.
pub(crate) fn close(pool: &mut Option<Arc<OpenPool>>) {
    let _pools = lock(&POOLS);
    *pool = None;
}

fn file_id(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn open_pool(path: &Path, how: &Creation) -> Result<Pool> {
    if !how.create {
        return Options::new().open(path).map_err(|error| of_open_error(&error));
    }
    let mut options = Options::new();
    if !path.exists() {
        let number = |text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| CANTOPEN),
        };
        options = options.size(number(&how.size)?.unwrap_or(SIZE));
        if let Some(log) = number(&how.log)? {
            options = options.log(log);
        }
        if let Some(engine) = &how.engine {
            let engine = engine.parse::<EngineKind>().map_err(|_| CANTOPEN)?;
            options = options.engine(engine);
        }
    }
    options.open_or_create(path).map_err(|error| of_open_error(&error))
}

impl OpenPool {
    pub(crate) fn new(
        source: Source,
        read_only: bool,
        databases: Arc<Mutex<HashMap<String, Weak<Database>>>>,
    ) -> Self {
        OpenPool {
            committing: Mutex::default(),
            connections: AtomicUsize::new(0),
            source,
            read_only,
            databases,
            groups: Mutex::default(),
        }
    }

    /// The database with this name. If it is in nobody's hands, and in the pool neither, it is an empty one where `create`
    /// says so; `main` always is.
    pub(crate) fn database(
        &self,
        handle: &mut Handle,
        name: &str,
        create: bool,
    ) -> Result<Arc<Database>, Code> {
        let mut databases = lock(&self.databases);
        if let Some(open) = databases.get(name).and_then(Weak::upgrade) {
            return Ok(open);
        }
        let mut opened = Database::open(handle, name).map_err(|error| of_error(&error))?;
        opened.syncs_stores = self.source.syncs_stores();
        let is_there = opened.state().versions.header.at != 0;
        if !is_there && !create && name != MAIN {
            return Err(CANTOPEN);
        }
        let opened = Arc::new(opened);
        databases.insert(name.to_owned(), Arc::downgrade(&opened));
        Ok(opened)
    }

    pub(crate) fn begin_connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_connection(&self) {
        if self.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            // One that begins meanwhile makes a new one.
            *lock(&self.committing) = None;
        }
    }

    /// Runs `commit` on the session of commits. While another database's commit uses it, or if there is none, it runs on
    /// the connection's `own`: commits of several databases do not wait for each other here.
    pub(crate) fn commit<R>(&self, own: &mut Handle, commit: impl FnOnce(&mut Handle) -> R) -> R {
        let Source::Pool(_) = &self.source else { return commit(own) };
        let Ok(mut committing) = self.committing.try_lock() else { return commit(own) };
        if committing.is_none() {
            *committing = self.source.session().ok();
        }
        match &mut *committing {
            Some(handle) => commit(handle),
            None => commit(own),
        }
    }

    /// The group of the connection at this address.
    pub(crate) fn group(&self, address: usize) -> Arc<Group> {
        let mut groups = lock(&self.groups);
        if let Some(group) = groups.get(&address).and_then(Weak::upgrade) {
            return group;
        }
        groups.retain(|_, group| group.strong_count() > 0);
        let group = Arc::new(Group::new(locking(address)));
        groups.insert(address, Arc::downgrade(&group));
        group
    }
}
