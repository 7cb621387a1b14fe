//! One database of one connection: what SQLite does with a file.
//!
//! SQLite's sequence for a transaction that writes: lock 1 (shared), reads, lock 2 (reserved), writes when its cache is
//! full, lock 4 (exclusive), writes, sync, the end of phase two, unlock 1, unlock 0. The databases that a connection has
//! attached do all writes before the first of them ends phase two; they are cut after it.
//!
//! Invariants:
//! - From lock 1 on the connection has a version pinned, and reads it and its own stage, nothing else.
//! - The versions of a connection's databases in one pool are of one moment, from the first lock 1 of any of them until
//!   the last is unlocked: the first pins all, and commits publish the versions of all their databases at once.
//! - No transaction of the pool is open between two calls.
//! - The commit is in the first end of phase two, of all staged databases of the connection in the pool. The wait for
//!   its durability is in the last unlock, when all of them have let others write; or, in exclusive locking mode, in
//!   which no unlock comes, at the end of phase two.
//! - A statement that only reads gets no page of a version that is not durable.

use crate::codes::{
    self, BUSY_SNAPSHOT, FULL, IOERR, IOERR_FSYNC, IOERR_SHORT_READ, OK, READONLY, Result, SCHEMA,
};
use crate::commit::{self, IN_PLACE, Way, read_page};
use crate::database::{Connection, Database, States, coded};
use crate::open::{self, OpenPool};
use crate::session::Handle;
use crate::stage::{Stage, pieces};
use crate::trim;
use crate::versions::{Shape, Versions};
use perdura::Ticket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) const NONE: i32 = 0;
pub(crate) const SHARED: i32 = 1;
pub(crate) const RESERVED: i32 = 2;

/// The longest that a statement that writes waits in the queue before SQLite's own handling of a busy database begins.
const QUEUE: Duration = Duration::from_millis(50);
/// How often a statement runs again at most: SQLite itself gives up after 50 times.
const AGAIN: u32 = 40;
/// Replaced pages from which on they are freed at once.
const MANY_REPLACED: usize = 4096;

/// A database of a connection: its number, the database, and what commits reach.
type Seat = (Connection, Arc<Database>, Arc<Mutex<Member>>);

/// A version that is pinned for a database, and the commit that made it.
#[derive(Clone, Copy)]
struct Pin {
    shape: Shape,
    ticket: Ticket,
}

impl Pin {
    fn newest(versions: &mut Versions) -> Self {
        Pin { shape: versions.pin(), ticket: versions.ticket }
    }
}

/// How a SQLite connection locks, in whichever pools its databases are.
#[derive(Default)]
pub(crate) struct Locking {
    /// Whether `PRAGMA locking_mode` has asked for exclusive locking.
    exclusive: AtomicBool,
    /// Whether its database `main` is one of this VFS, which is told of that pragma.
    has_main: AtomicBool,
}

/// One SQLite connection's databases in one pool.
pub(crate) struct Group {
    members: Mutex<Vec<Seat>>,
    locking: Arc<Locking>,
}

impl Group {
    pub(crate) fn new(locking: Arc<Locking>) -> Self {
        Group { members: Mutex::default(), locking }
    }
}

/// The part of a connection's database that commits of its group reach.
#[derive(Default)]
pub(crate) struct Member {
    stage: Stage,
    level: i32,
    version: Option<u64>,
    /// What is pinned for the database while others of the connection are locked and it is not.
    ahead: Option<Pin>,
    /// Whether SQLite takes no locks: its version is that of its opening, whatever the others read.
    apart: bool,
    /// Whether the connection is the writer before it has asked for it.
    early: bool,
    /// How often in a row the connection was refused the right to write.
    refused: u32,
    /// Whether SQLite has asked for a sync since the lock: it does so once in a commit, unless `synchronous` is off.
    synced: bool,
    /// Whether SQLite has ended phase one of a commit, with all that was staged by then.
    is_ready: bool,
    /// The commit whose durability the member's unlock waits for, unless another member's does.
    owed: Option<Ticket>,
    /// The member's last commit, if SQLite has asked for no sync of it.
    unsynced: Option<Ticket>,
}

impl Member {
    /// Whether the database is in a transaction of its connection.
    fn is_locked(&self) -> bool {
        self.level >= SHARED && !self.apart
    }
}

/// A statement that is running.
pub(crate) trait Statements {
    /// Whether a statement runs on the connection that writes.
    fn is_writing(&self) -> bool;

    /// Whether the running statement is the connection's whole transaction.
    fn is_transaction(&self) -> bool;
}

struct NoStatements;

impl Statements for NoStatements {
    fn is_writing(&self) -> bool {
        false
    }

    fn is_transaction(&self) -> bool {
        false
    }
}

/// How a database is opened.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    /// SQLite will take no locks (`nolock`, `immutable`): it has the version of now, and only reads.
    pub(crate) unlocked: bool,
}

/// An open database.
pub(crate) struct OpenDatabase {
    pool: Option<Arc<OpenPool>>,
    database: Arc<Database>,
    handle: Option<Handle>,
    number: Connection,
    group: Option<Arc<Group>>,
    member: Arc<Mutex<Member>>,
    pin: Option<Shape>,
    /// The commit that made the pinned version; `None` if it is known to be durable.
    unsure: Option<Ticket>,
    pub(crate) read_only: bool,
}

/// SQLite uses a connection on any thread, one at a time.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<OpenDatabase>();
};

fn is_full<T>(result: &perdura::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| codes::of_error(error) == FULL)
}

/// Gives the pool what a database does not need. The caller is its writer.
fn make_room(handle: &mut Handle, database: &Database) {
    let _ = commit::reap(handle, database, 0).and_then(|()| trim::trim(handle, database));
}

fn commit_staged(
    handle: &mut Handle,
    locked: &[(&Arc<Database>, MutexGuard<'_, Member>)],
    way: Way,
) -> perdura::Result<Option<Ticket>> {
    let staged: Vec<_> =
        locked.iter().map(|(database, member)| (&***database, &member.stage)).collect();
    commit::commit(handle, &staged, way)
}

/// Commits what is staged for the databases, in one transaction.
fn commit_members(
    handle: &mut Handle,
    pool: &OpenPool,
    mut locked: Vec<(&Arc<Database>, MutexGuard<'_, Member>)>,
) -> Result {
    let synced = locked.iter().any(|(_, member)| member.synced);
    let mut ticket = commit_staged(handle, &locked, Way::Least);
    let was_full = is_full(&ticket);
    if was_full {
        for (database, member) in &mut locked {
            // A failure shows at the next commit, here and below.
            let _ = trim::trim_stage(handle, database, &mut member.stage);
            make_room(handle, database);
        }
    }
    // Asking a pool for the size of its log takes longer than a commit.
    let log = if is_full(&ticket) { pool.source.log_bytes() } else { 0 };
    let mosts = std::iter::successors(Some(log / 2), |most| Some(most / 16));
    for most in mosts.take_while(|most| *most > IN_PLACE).chain([IN_PLACE]) {
        if !is_full(&ticket) {
            break;
        }
        // What was made for the attempt before this one makes room.
        let mut reaped = locked.iter().map(|(database, _)| commit::reap(handle, database, 0));
        if reaped.any(|reaped| reaped.is_err()) {
            break;
        }
        ticket = commit_staged(handle, &locked, Way::InPlace(most));
    }
    let ticket = ticket.map_err(|error| {
        // SQLite rolls back, and reads its pages again.
        locked.iter_mut().for_each(|(_, member)| member.stage.clear());
        codes::of_failed_commit(&error)
    })?;
    for (database, member) in &mut locked {
        member.is_ready = false;
        let pages = std::mem::take(&mut member.stage).pages;
        if ticket.is_some() {
            handle.use_pages(pages.keys().copied());
            let old = member.version.unwrap_or(0);
            let mut state = database.state();
            member.version = Some(state.versions.move_pin(old));
            state.versions.know(pages);
        }
        if synced {
            member.owed = member.owed.max(ticket);
        } else {
            member.unsynced = ticket;
        }
    }
    if was_full {
        // For those that find it full next, also in other databases.
        locked.iter().for_each(|(database, _)| make_room(handle, database));
    }
    Ok(())
}

/// Reads bytes of a version, or of what is staged on top of it.
fn read_staged(
    handle: &mut Handle,
    database: &Database,
    stage: &Stage,
    (to, at): (&mut [u8], u64),
    shape: Shape,
) -> Result {
    let (page_size, length) = match stage.dirty {
        true => (stage.page_size, stage.length),
        false => (shape.page_size, shape.length),
    };
    let there = length.saturating_sub(at).min(to.len() as u64) as usize;
    to[there..].fill(0);
    let mut read = |page, from, to: &mut [u8]| {
        coded(read_page(handle, database, (shape.version, page, from), to))
    };
    let mut whole = Vec::new();
    pieces(page_size, at, there, |page, within, part| {
        let to = &mut to[part];
        if to.len() == page_size as usize {
            return match stage.dirty {
                true => stage.read_page(page, to, |page, to| read(page, 0, to)),
                false => read(page, 0, to),
            };
        }
        if !stage.dirty {
            return read(page, within.start, to);
        }
        whole.resize(page_size as usize, 0);
        stage.read_page(page, &mut whole, |page, to| read(page, 0, to))?;
        to.copy_from_slice(&whole[within]);
        Ok(())
    })?;
    if there < to.len() { Err(IOERR_SHORT_READ) } else { Ok(()) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenDatabase {
    /// Opens the database with this name in the pool.
    pub(crate) fn new(pool: Arc<OpenPool>, name: &str, how: Opening) -> Result<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let mut handle = coded(pool.source.session())?;
        let database = pool.database(&mut handle, name, how.create)?;
        let mut open = OpenDatabase {
            pool: Some(pool),
            database,
            handle: Some(handle),
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            group: None,
            member: Arc::default(),
            pin: None,
            unsure: None,
            read_only: how.read_only || how.unlocked,
        };
        if how.unlocked {
            lock(&open.member).apart = true;
            open.lock(SHARED, &NoStatements)?;
        }
        if let Some(pool) = &open.pool {
            pool.begin_connection();
        }
        Ok(open)
    }

    /// Whether this process is a child, forked since the pool was opened: the pool is the parent's.
    pub(crate) fn is_forked(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.source.is_forked())
    }

    fn handle(&mut self) -> Result<&mut Handle> {
        self.handle.as_mut().ok_or(IOERR)
    }

    /// Joins the other databases of the SQLite connection at this address, whose `main` this one may be.
    pub(crate) fn join(&mut self, address: usize, is_main: bool) {
        self.leave();
        if let Some(pool) = &self.pool {
            let group = pool.group(address);
            group.locking.has_main.fetch_or(is_main, Ordering::Relaxed);
            let member = (self.number, self.database.clone(), self.member.clone());
            lock(&group.members).push(member);
            self.group = Some(group);
        }
    }

    fn leave(&mut self) {
        if let Some(group) = self.group.take() {
            lock(&group.members).retain(|(number, ..)| *number != self.number);
            let ahead = lock(&self.member).ahead.take();
            if let Some(pin) = ahead {
                self.database.state().versions.unpin(pin.shape.version);
            }
        }
    }

    /// `PRAGMA locking_mode = EXCLUSIVE`.
    pub(crate) fn lock_exclusively(&self) {
        if let Some(group) = &self.group {
            group.locking.exclusive.store(true, Ordering::Relaxed);
        }
    }

    fn is_exclusive(&self) -> bool {
        let is_on = |group: &Arc<Group>| group.locking.exclusive.load(Ordering::Relaxed);
        self.group.as_ref().is_some_and(is_on)
    }

    /// Whether no unlock comes after a commit, or none may come: of a `main` elsewhere the pragma is not heard here.
    fn may_stay_locked(&self) -> bool {
        let has_main = |group: &Arc<Group>| group.locking.has_main.load(Ordering::Relaxed);
        self.is_exclusive() || self.group.as_ref().is_some_and(|group| !has_main(group))
    }

    /// The level of its lock.
    pub(crate) fn level(&self) -> i32 {
        lock(&self.member).level
    }

    /// Whether any connection is the database's writer.
    pub(crate) fn is_reserved(&self) -> bool {
        self.database.is_reserved()
    }

    /// Raises the lock.
    pub(crate) fn lock(&mut self, level: i32, statements: &dyn Statements) -> Result {
        let now = self.level();
        if now < SHARED && level >= SHARED {
            if self.pool.as_ref().is_none_or(|pool| pool.source.is_gone()) {
                return Err(IOERR);
            }
            if !self.read_only && statements.is_writing() {
                self.queue();
            }
            let Pin { shape, ticket } = self.pin_all();
            self.pin = Some(shape);
            let is_durable = self.handle()?.is_durable(ticket);
            let mut member = lock(&self.member);
            let is_own = member.unsynced == Some(ticket);
            let is_sure = ticket == Ticket::default() || is_durable || is_own;
            if !is_sure && self.pool.as_ref().is_some_and(|pool| pool.source.has_failed_to_sync()) {
                // It never will be durable, and SQLite may have its pages.
                self.pin = None;
                self.database.state().versions.unpin(shape.version);
                return Err(IOERR_FSYNC);
            }
            self.unsure = Some(ticket).filter(|_| !is_sure);
            (member.level, member.version) = (SHARED, Some(shape.version));
        }
        if now < RESERVED && level >= RESERVED {
            if self.read_only {
                return Err(READONLY);
            }
            let version = self.pin.map_or(0, |pin| pin.version);
            let reserved = self.database.reserve(self.number, version);
            let mut member = lock(&self.member);
            member.refused = if reserved.is_ok() { 0 } else { member.refused + 1 };
            let is_old = reserved == Err(BUSY_SNAPSHOT) && self.group.is_some();
            if is_old && member.refused < AGAIN && statements.is_transaction() {
                // Another database that the statement has locked may be old too, and stays locked while SQLite tries
                // this one again. So it runs the whole statement again.
                return Err(SCHEMA);
            }
            reserved?;
            member.early = false;
        }
        let mut member = lock(&self.member);
        member.level = member.level.max(level);
        Ok(())
    }

    /// Lowers the lock: what is staged and not committed is gone. Waits for the commit, if there was one, and lets
    /// nobody keep pages that are not durable.
    pub(crate) fn unlock(&mut self, level: i32) -> Result {
        let owed = {
            let mut member = lock(&self.member);
            if member.level <= level {
                return Ok(());
            }
            if level < RESERVED {
                member.stage.clear();
                (member.synced, member.is_ready) = (false, false);
            }
            member.level = level;
            if level >= RESERVED {
                return Ok(());
            }
            member.owed.take()
        };
        let pending = owed.max(self.unsure);
        let mut waits = self.unsure.filter(|_| level == NONE || owed.is_some());
        if let Some(owed) = owed {
            self.reap();
            waits = self.others_owe(owed);
            self.unsure = None;
        }
        lock(&self.member).early = false;
        let is_durable =
            |ticket| self.handle.as_ref().is_none_or(|handle| handle.is_durable(ticket));
        // It waits here, or when another of its databases is unlocked.
        self.database
            .release(self.number, waits.or(owed).is_some_and(|ticket| !is_durable(ticket)));
        if level == NONE {
            self.unpin(pending);
        }
        match waits {
            Some(ticket) => {
                self.unsure = None;
                self.wait(ticket)
            }
            None => Ok(()),
        }
    }

    /// Passes a commit's durability to another database of the connection that took part and has not been unlocked.
    /// Returns the commit to wait for if there is none.
    fn others_owe(&self, owed: Ticket) -> Option<Ticket> {
        let group = self.group.as_ref()?;
        let members = lock(&group.members);
        let others = members.iter().filter(|(number, ..)| *number != self.number);
        for (_, _, other) in others {
            let mut other = lock(other);
            if other.level >= RESERVED && other.owed.is_some() {
                other.owed = other.owed.max(Some(owed));
                return None;
            }
        }
        Some(owed)
    }

    fn wait(&mut self, ticket: Ticket) -> Result {
        coded(self.handle()?.wait(ticket))
    }

    /// Pins this database's version, and those of the connection's other databases in the pool: all of one moment.
    ///
    /// If some are locked already, the moment is that of the first lock; or now, if nothing that is locked has changed
    /// since. So a database that was not read yet is seldom too old to be written.
    fn pin_all(&self) -> Pin {
        let newest = || Pin::newest(&mut self.database.state().versions);
        let Some(group) = &self.group else { return newest() };
        let members = lock(&group.members);
        if members.len() == 1 {
            return newest();
        }
        let mut members: Vec<_> = members
            .iter()
            .map(|(number, database, member)| (*number, &**database, lock(member)))
            .collect();
        let mut states = States::lock(members.iter().map(|(_, database, _)| *database));
        let is_now = members.iter().filter(|(.., member)| member.is_locked()).all(
            |(_, database, member)| {
                member.version == Some(states.versions(database).newest().version)
            },
        );
        if is_now {
            let free = members.iter_mut().filter(|(.., member)| member.level < SHARED);
            for (_, database, member) in free {
                let versions = states.versions(database);
                if let Some(old) = member.ahead.replace(Pin::newest(versions)) {
                    versions.unpin(old.shape.version);
                }
            }
        }
        let own = members.iter_mut().find(|(number, ..)| *number == self.number);
        // A database that was attached after the moment has only its newest version.
        let ahead = own.and_then(|(.., member)| member.ahead.take());
        ahead.unwrap_or_else(|| Pin::newest(states.versions(&self.database)))
    }

    /// Lets go of the version, unless the connection's transaction goes on in other databases; with the last of them,
    /// of all. `pending` is the commit that made it, if that is not known to be durable.
    fn unpin(&mut self, pending: Option<Ticket>) {
        let Some(pin) = self.pin.take() else { return };
        let Some(version) = lock(&self.member).version.take() else { return };
        let Some(group) = &self.group else {
            return self.database.state().versions.unpin(version);
        };
        let members = lock(&group.members);
        let goes_on = members.iter().any(|(.., member)| lock(member).is_locked());
        if goes_on && !self.is_exclusive() {
            let shape = Shape { version, ..pin };
            let ahead = Pin { shape, ticket: pending.unwrap_or_default() };
            if let Some(old) = lock(&self.member).ahead.replace(ahead) {
                self.database.state().versions.unpin(old.shape.version);
            }
            return;
        }
        self.database.state().versions.unpin(version);
        if goes_on {
            // One that is locked exclusively stays locked.
            return;
        }
        for (number, database, member) in members.iter() {
            let mut member = lock(member);
            if std::mem::take(&mut member.early) {
                database.release(*number, false);
            }
            if let Some(pin) = member.ahead.take() {
                database.state().versions.unpin(pin.shape.version);
            }
        }
    }

    /// Waits for a short time to become the writer before a version is pinned: a statement that writes would otherwise
    /// find it an old one.
    ///
    /// With several databases it may only read this one. Then it queues for those for which it was refused the last
    /// time, before any of them is locked.
    fn queue(&self) {
        let queue = |number: Connection, database: &Database, member: &Mutex<Member>| {
            let taken = database.queue_to_write(number, QUEUE);
            lock(member).early = taken;
        };
        let Some(group) = &self.group else {
            return queue(self.number, &self.database, &self.member);
        };
        let members = lock(&group.members);
        if members.len() == 1 {
            drop(members);
            return queue(self.number, &self.database, &self.member);
        }
        let is_first = !members.iter().any(|(.., member)| lock(member).is_locked());
        let is_wanted = |(number, _, member): &&Seat| {
            let member = lock(member);
            member.refused > 0 && (is_first || *number == self.number) && member.level < SHARED
        };
        let mut wanted: Vec<_> = members.iter().filter(is_wanted).cloned().collect();
        drop(members);
        // In an order that all threads have.
        wanted.sort_by_key(|(_, database, _)| Arc::as_ptr(database));
        for (number, database, member) in &wanted {
            queue(*number, database, member);
        }
    }

    fn reap(&mut self) {
        if let Some(handle) = &mut self.handle {
            // A failure shows at the next commit.
            let _ = commit::reap(handle, &self.database, MANY_REPLACED);
        }
    }

    /// Reads bytes; those beyond the end are zeros.
    pub(crate) fn read(&mut self, to: &mut [u8], at: u64, statements: &dyn Statements) -> Result {
        self.before_read(at, to.len(), statements)?;
        let member = lock(&self.member);
        let pinned = member.version;
        let shape = match (pinned, self.pin) {
            (Some(version), Some(pin)) if pin.version == version => pin,
            (Some(version), _) => self.database.state().versions.shape(version),
            // Without a lock, the newest for now.
            (None, _) => self.database.state().versions.pin(),
        };
        let handle = self.handle.as_mut().ok_or(IOERR)?;
        if to.len() as u64 == shape.page_size {
            handle.use_pages(std::iter::once(at / shape.page_size));
        }
        let result = read_staged(handle, &self.database, &member.stage, (to, at), shape);
        if pinned.is_none() {
            self.database.state().versions.unpin(shape.version);
        }
        result
    }

    /// A page besides the first is read by a statement that does not write, unless the connection is the writer by now:
    /// SQLite reads only the first page before it asks for the right to write.
    fn before_read(&mut self, at: u64, len: usize, statements: &dyn Statements) -> Result {
        let page_size = self.pin.map_or(0, |pin| pin.page_size);
        let is_first = at + len as u64 <= page_size.max(512);
        {
            let mut member = lock(&self.member);
            if self.unsure.is_none() && !member.early || member.level >= RESERVED {
                return Ok(());
            }
            if member.early && !is_first {
                member.early = false;
                drop(member);
                self.database.release(self.number, true);
            }
        }
        // Of the header, SQLite itself reads 16 bytes, to see whether its cache is valid.
        let is_cache_check = at == 24 && len == 16;
        if is_first && (is_cache_check || statements.is_writing()) {
            return Ok(());
        }
        if let Some(ticket) = self.unsure {
            self.wait(ticket)?;
            self.unsure = None;
        }
        Ok(())
    }

    /// Runs `change` on the stage, with a function that reads committed pages.
    fn stage(
        &mut self,
        change: impl FnOnce(&mut Member, &mut dyn FnMut(u64, &mut [u8]) -> Result) -> Result,
    ) -> Result {
        let mut member = lock(&self.member);
        if member.level < RESERVED {
            // SQLite writes under its locks only.
            return Err(IOERR);
        }
        let version = member.version.ok_or(IOERR)?;
        if !member.stage.dirty {
            let shape = self.database.state().versions.shape(version);
            member.stage.begin(shape.page_size, shape.length);
        }
        let (database, handle) = (&*self.database, self.handle.as_mut().ok_or(IOERR)?);
        change(&mut member, &mut |page, to| {
            coded(read_page(handle, database, (version, page, 0), to))
        })
    }

    /// Stages bytes.
    pub(crate) fn write(&mut self, bytes: &[u8], at: u64) -> Result {
        let mut page = Vec::new();
        let mut bytes = bytes;
        if at == 0 && bytes.len() >= 20 && bytes.starts_with(b"SQLite format 3\0") {
            // There is no WAL here: a header that says so would make the database unusable.
            if bytes[18..20] != [1, 1] {
                page.extend_from_slice(bytes);
                page[18..20].fill(1);
                bytes = &page;
            }
        }
        self.stage(|member, base| {
            member.is_ready = false;
            member.stage.write(at, bytes, base)
        })
    }

    /// Stages a new length.
    pub(crate) fn truncate(&mut self, length: u64) -> Result {
        self.stage(|member, base| member.stage.truncate(length, base))
    }

    /// The file's length as this connection sees it.
    pub(crate) fn length(&mut self) -> u64 {
        let member = lock(&self.member);
        if member.stage.dirty {
            return member.stage.length;
        }
        let versions = &self.database.state().versions;
        member.version.map_or_else(|| versions.newest(), |version| versions.shape(version)).length
    }

    /// SQLite asks for durability.
    pub(crate) fn sync(&mut self) {
        lock(&self.member).synced = true;
    }

    /// The end of phase one.
    pub(crate) fn end_phase_one(&mut self) {
        lock(&self.member).is_ready = true;
    }

    /// The end of phase two: commits what is staged for this database, and for the connection's others that have ended
    /// phase one too: in a shared cache others may be in the midst of a transaction of another connection.
    pub(crate) fn commit(&mut self) -> Result {
        if lock(&self.member).stage.dirty {
            let members = self.members();
            let locked = members
                .iter()
                .map(|(number, database, member)| (*number, database, lock(member)))
                .filter(|(number, _, member)| {
                    let is_ready = *number == self.number || member.is_ready;
                    is_ready && member.stage.dirty && member.level >= RESERVED
                })
                .map(|(_, database, member)| (database, member))
                .collect();
            let pool = self.pool.as_deref().ok_or(IOERR)?;
            let handle = self.handle.as_mut().ok_or(IOERR)?;
            pool.commit(handle, |handle| commit_members(handle, pool, locked))?;
        }
        self.settle()
    }

    /// The connection's databases in the pool, in an order that all threads have.
    fn members(&self) -> Vec<Seat> {
        match &self.group {
            Some(group) => lock(&group.members).clone(),
            None => vec![(self.number, self.database.clone(), self.member.clone())],
        }
    }

    /// After a commit, also one that another database of the connection has made: the pin is the new version's, and
    /// where no unlock will come it is waited for here.
    fn settle(&mut self) -> Result {
        let may_stay_locked = self.may_stay_locked();
        let mut member = lock(&self.member);
        member.synced = false;
        if let (Some(version), Some(pin)) = (member.version, &mut self.pin) {
            *pin = self.database.state().versions.shape(version);
        }
        let owed = if may_stay_locked { member.owed.take() } else { None };
        drop(member);
        match owed {
            Some(ticket) => {
                self.reap();
                self.unsure = None;
                self.wait(ticket)
            }
            None => Ok(()),
        }
    }

    /// Whether nothing can be committed any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.pool.as_ref().is_none_or(|pool| pool.source.has_failed())
    }

    /// Bytes of old pages kept in memory for readers.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.database.state().versions.kept_bytes()
    }

    /// Closes it.
    pub(crate) fn close(&mut self) -> i32 {
        if self.is_forked() {
            // The pool, its locks included, is the parent's.
            std::mem::forget((self.pool.take(), self.handle.take(), self.group.take()));
            return OK;
        }
        let unlocked = self.unlock(NONE);
        self.leave();
        self.handle = None;
        if let Some(pool) = &self.pool {
            pool.end_connection();
        }
        open::close(&mut self.pool);
        unlocked.err().unwrap_or(OK)
    }
}
