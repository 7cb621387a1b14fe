//! Events and the places in the source that cause them.

use perdura_memory::image::Site;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// What can happen to durability. A power cut can fall after each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Words or bytes of one line are stored.
    Store,
    /// Lines are stored past the caches.
    Stream,
    /// Lines are written back.
    WriteBack,
    /// A core waits for its write-backs and streams.
    Fence,
    /// A core's speculation commits: all its stores, which are no events, become visible.
    Commit,
    /// A line arrives in the persistence domain, for this reason: not an access by a program, and shown only with
    /// [`Options::at_arrivals`](crate::Options::at_arrivals).
    Arrival(&'static str),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Store => f.write_str("store"),
            Kind::Stream => f.write_str("stream"),
            Kind::WriteBack => f.write_str("write-back"),
            Kind::Fence => f.write_str("fence"),
            Kind::Commit => f.write_str("commit"),
            Kind::Arrival(what) => write!(f, "arrival ({what})"),
        }
    }
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What happened.
    pub kind: Kind,
    /// Where in the source.
    pub site: Site,
    /// The event's number, from 1. An arrival has the number of the event that follows it.
    pub number: u64,
    /// The arrival's number among those before the same event, from 1; 0 for other events.
    pub arrival: u32,
    /// The core.
    pub core: usize,
}

impl Event {
    /// Whether an event of this kind at this place is at the same call site.
    pub fn is_at(&self, kind: Kind, site: Site) -> bool {
        self.kind == kind && (std::ptr::eq(self.site, site) || self.site == site)
    }
}

/// A call site: its kind, file and line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct CallSite {
    /// The kind of its events.
    pub kind: Kind,
    /// The file, from the crate's folder on.
    pub file: &'static str,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl CallSite {
    /// The call site of an event.
    pub fn of(kind: Kind, site: Site) -> Self {
        let file = site.file().rsplit("crates/").next().unwrap_or_default();
        CallSite { kind, file, line: site.line(), column: site.column() }
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}:{}", self.kind, self.file, self.line)
    }
}

/// How many events each call site has had.
#[derive(Clone, Debug, Default)]
pub struct Sites(BTreeMap<(Kind, usize), (Event, u64)>);

impl Sites {
    pub(crate) fn meet(&mut self, event: &Event) {
        // By address: a place in the source has one, or a few, which `all` merges.
        let key = (event.kind, std::ptr::from_ref(event.site) as usize);
        self.0.entry(key).or_insert((*event, 0)).1 += 1;
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Sites) {
        for (key, (event, count)) in &other.0 {
            self.0.entry(*key).or_insert((*event, 0)).1 += count;
        }
    }

    /// Each call site with its first event and its number of events, in the source's order.
    pub fn all(&self) -> BTreeMap<CallSite, (Event, u64)> {
        let mut all = BTreeMap::new();
        for (event, count) in self.0.values() {
            all.entry(CallSite::of(event.kind, event.site)).or_insert((*event, 0)).1 += count;
        }
        all
    }
}
