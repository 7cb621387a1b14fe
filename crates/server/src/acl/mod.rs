//! Users and what they may do, as Redis's ACL has it.
//!
//! - A [`User`] has selectors, each a set of commands, of patterns of keys and of channels (`selector`). Commands that rules
//!   may name, and how they access their keys, are in `catalog.txt`; a request is checked in `check`.
//! - A user is never changed, but replaced. Who a client is stands in its [`Listing`], for all threads; its own thread takes
//!   that over when [`Acl::version`] has changed, at the beginning of a turn. A client whose user may do everything has a
//!   flag, and is never checked.
//! - The list of users is locked while one is replaced in it and in the listings: so no client stays with an old one, however
//!   it gives its password meanwhile. Then the list of clients is locked, then a listing's user.

mod catalog;
mod check;
mod file;
mod log;
mod rules;
mod selector;
#[cfg(test)]
mod tests;
mod user;

pub(crate) use catalog::{Access, CATEGORIES, catalog, category, is_in};
pub(crate) use check::{Denied, Reason, check, key_access, reads_all_keys};
pub(crate) use file::Users;
pub(crate) use log::{Context, Entry};
pub(crate) use rules::merged;
pub(crate) use selector::Selector;
pub(crate) use user::{DEFAULT, User, hash};

use crate::keyspace::now;
use crate::listing::Listing;
use crate::pubsub::Kind;
use crate::waiting::{Delivery, Doom};
use log::Log;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The users, and what was denied them.
pub(crate) struct Acl {
    users: Mutex<Users>,
    /// How often users were replaced.
    version: AtomicU64,
    /// The file of users, if there is one.
    file: Option<PathBuf>,
    /// Whether new users may use all channels.
    opens_channels: AtomicBool,
    /// The password of CONFIG SET requirepass.
    password: Mutex<String>,
    log: Mutex<Log>,
    denied: [AtomicU64; Reason::ALL.len()],
}

impl Acl {
    /// With the default user alone, who needs this password, if there is one.
    pub(crate) fn new(password: Option<&str>) -> Self {
        let default = with_password(&User::anybody(), password.unwrap_or_default());
        Acl {
            users: Mutex::new([(DEFAULT.to_vec(), Arc::new(default))].into()),
            version: AtomicU64::new(0),
            file: None,
            opens_channels: AtomicBool::new(false),
            password: Mutex::new(password.unwrap_or_default().to_owned()),
            log: Mutex::default(),
            denied: Default::default(),
        }
    }

    /// The same with the users of a file.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn with_file(self, path: &Path) -> Result<Self, String> {
        let users = file::load(path, false)?;
        Ok(Acl { users: Mutex::new(users), file: Some(path.to_owned()), ..self })
    }

    pub(crate) fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The user of this name.
    pub(crate) fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users().get(name).cloned()
    }

    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// How often users were replaced so far.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn opens_channels(&self) -> bool {
        self.opens_channels.load(Ordering::Relaxed)
    }

    pub(crate) fn set_opens_channels(&self, opens: bool) {
        self.opens_channels.store(opens, Ordering::Relaxed);
    }

    pub(crate) fn password(&self) -> String {
        self.password.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes `listing`'s client this user, if the password is right.
    pub(crate) fn log_in(&self, listing: &Listing, name: &[u8], password: &[u8]) -> bool {
        let hash = hash(password);
        let users = self.users();
        match users.get(name).filter(|user| user.takes(&hash)) {
            Some(user) => {
                listing.set_user(Arc::clone(user));
                true
            }
            None => false,
        }
    }

    /// Notes what was denied.
    pub(crate) fn note(
        &self,
        listing: &Listing,
        denied: &Denied,
        context: Context,
        user: Option<&[u8]>,
        len: usize,
    ) {
        self.denied[denied.reason as usize].fetch_add(1, Ordering::Relaxed);
        let time = now();
        let entry = Entry {
            id: 0,
            count: 1,
            reason: denied.reason,
            context,
            object: denied.object.clone(),
            user: user.map_or_else(|| listing.user().name.clone(), <[u8]>::to_vec),
            created: time,
            updated: time,
            client: listing.line("NULL").trim_end().to_owned(),
        };
        self.log.lock().unwrap_or_else(PoisonError::into_inner).add(entry, len);
    }

    /// The newest entries of the log.
    pub(crate) fn newest(&self, count: usize) -> Vec<Entry> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).newest(count)
    }

    pub(crate) fn clear_log(&self) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// How often something was denied for a reason.
    pub(crate) fn denied(&self, reason: Reason) -> u64 {
        self.denied[reason as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn reset_counts(&self) {
        self.denied.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// The default user with this password alone, or with none.
fn with_password(user: &User, password: &str) -> User {
    let mut user = user.clone();
    let rules = match password {
        "" => vec!["nopass".to_owned()],
        password => vec!["resetpass".to_owned(), format!(">{password}")],
    };
    for rule in rules {
        let applied = user.apply(rule.as_bytes(), false);
        debug_assert_eq!(applied, Ok(()));
    }
    user
}

/// Whether a name cannot be written into a line of words.
pub(crate) fn has_spaces(name: &[u8]) -> bool {
    name.iter().any(|&byte| byte == 0 || byte.is_ascii_whitespace() || byte == 0x0b)
}

/// A hexadecimal digit, of the lower four bits.
pub(crate) fn digit(nibble: u8) -> u8 {
    b"0123456789abcdef"[usize::from(nibble & 0xF)]
}

/// Changes of users, which their clients feel.
impl crate::server::Server {
    /// Adds or changes a user by rules: all of them, or none.
    ///
    /// # Errors
    /// What is wrong with a rule.
    pub(crate) fn set_user<'a>(
        &self,
        name: &[u8],
        rules: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), String> {
        let opens = self.acl.opens_channels();
        let rules = merged(rules).map_err(|arg| {
            let arg = String::from_utf8_lossy(arg);
            format!("Unmatched parenthesis in acl selector starting at '{arg}'.")
        })?;
        let mut users = self.acl.users();
        let old = users.get(name).cloned();
        let mut user = old.as_ref().map_or_else(|| User::new(name, opens), |old| (**old).clone());
        for rule in rules {
            user.apply(&rule, opens).map_err(|why| {
                let rule = String::from_utf8_lossy(&rule);
                format!("Error in ACL SETUSER modifier '{rule}': {}", why.text())
            })?;
        }
        let user = Arc::new(user);
        if let Some(old) = &old {
            self.end_listeners(old, &user);
        }
        self.replace(&mut users, user);
        Ok(())
    }

    /// Sets the default user's password, or that none is needed.
    pub(crate) fn set_password(&self, password: &str) {
        let mut users = self.acl.users();
        let Some(default) = users.get(DEFAULT).cloned() else { return };
        self.replace(&mut users, Arc::new(with_password(&default, password)));
        let mut own = self.acl.password.lock().unwrap_or_else(PoisonError::into_inner);
        password.clone_into(&mut own);
    }

    /// Puts a user on the list, and in the place of its older self at all clients that are this user.
    fn replace(&self, users: &mut Users, user: Arc<User>) {
        users.insert(user.name.clone(), Arc::clone(&user));
        let clients: Vec<_> = self.clients().values().cloned().collect();
        for client in clients.iter().filter(|client| client.user().name == user.name) {
            client.set_user(Arc::clone(&user));
            self.judge_waiter(client, &user);
        }
        self.acl.version.fetch_add(1, Ordering::Release);
    }

    /// A client that waits for what its user may not do any more does not wait any longer.
    fn judge_waiter(&self, client: &Listing, user: &User) {
        let Some(doom) = self.waiting.look(client.id, |waiter| {
            let denied = check(user, waiter.command, waiter.args.as_args()).err()?;
            let len = self.tuning.acl_log_len();
            self.acl.note(client, &denied, Context::TopLevel, None, len);
            Some(Doom::Denied(Arc::from(format!("NOPERM {}", denied.text(user, false)))))
        }) else {
            return;
        };
        let ended = self.waiting.end(client.id, doom.clone());
        let delivery = ended.and_then(|waiter| Delivery::of(&waiter, doom));
        if let (Some(delivery), Some(deliver)) = (delivery, self.deliver.get()) {
            deliver(delivery);
        }
    }

    /// Ends clients that listen to channels that their user, as it will be, may not use.
    fn end_listeners(&self, old: &User, new: &User) {
        if new.selectors.iter().any(Selector::has_all_channels) {
            return;
        }
        let channels = || new.selectors.iter().flat_map(Selector::channels);
        let keeps = |one: &Selector| {
            !one.has_all_channels()
                && one.channels().iter().all(|channel| channels().any(|other| other == channel))
        };
        if old.selectors.iter().all(keeps) {
            return;
        }
        let is_permitted = |name: &[u8], is_pattern| {
            new.selectors.iter().any(|one| one.permits_channel(name, is_pattern))
        };
        let ids = self.pubsub.listening(|kind, name| {
            kind != Kind::Monitor && !is_permitted(name, kind == Kind::Pattern)
        });
        let clients: Vec<_> = self.clients().values().cloned().collect();
        for client in clients.iter().filter(|client| ids.contains(&client.id)) {
            if client.user().name == new.name {
                self.kill(client);
            }
        }
    }

    /// Removes users, and ends their clients but `own`. Returns how many there were, and whether `own` is one of their
    /// clients.
    pub(crate) fn remove_users<'a>(
        &self,
        names: impl Iterator<Item = &'a [u8]>,
        own: &Listing,
    ) -> (usize, bool) {
        let mut users = self.acl.users();
        let removed: Vec<_> = names.filter_map(|name| users.remove(name)).collect();
        let ends_own = self.end_clients(own, |name| removed.iter().any(|user| user.name == name));
        (removed.len(), ends_own)
    }

    /// Ends the clients of some users, but `own`. Returns whether that is one of them.
    fn end_clients(&self, own: &Listing, ends: impl Fn(&[u8]) -> bool) -> bool {
        let clients: Vec<_> = self.clients().values().cloned().collect();
        for client in clients.iter().filter(|client| client.id != own.id) {
            if ends(&client.user().name) {
                self.kill(client);
            }
        }
        ends(&own.user().name)
    }

    /// Replaces all users by those of the file. The clients of all but the default user are ended; returns whether `own`
    /// is to be, too.
    ///
    /// # Errors
    /// What is wrong with the file; the users are as they were.
    pub(crate) fn load_users(&self, own: &Listing) -> Result<bool, String> {
        let Some(path) = self.acl.file() else { return Ok(false) };
        let loaded = file::load(path, self.acl.opens_channels())?;
        let mut users = self.acl.users();
        let default = loaded.get(DEFAULT).cloned();
        *users = loaded;
        let ends_own = self.end_clients(own, |name| name != DEFAULT);
        if let Some(default) = default {
            self.replace(&mut users, default);
        }
        Ok(ends_own)
    }

    /// Writes the users into the file.
    ///
    /// # Errors
    /// Why that is not possible; the file is as it was.
    pub(crate) fn save_users(&self) -> Result<(), perdura::draft::DraftError> {
        let Some(path) = self.acl.file() else { return Ok(()) };
        let users = self.acl.users().clone();
        file::save(path, &users)
    }
}
