//! The limit of open files, which limits the number of clients.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files as far as `clients` need it; how many there is room for.
pub(crate) fn room_for(clients: usize) -> usize {
    /// Files besides the clients' sockets: the pool, polls, exchanges of metrics.
    const OTHERS: u64 = 128;
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = (clients as u64).saturating_add(OTHERS);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        // If it is refused, the limit that there is holds.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    match getrlimit(Resource::Nofile).current {
        Some(current) if current < wanted => current.saturating_sub(OTHERS).max(1) as usize,
        _ => clients,
    }
}
