//! LinkBench: nodes, and typed links between them, of a social network, with a count of the links of each node and type.
//!
//! The mix is the one that Archapt's paper has (its Table III): 64 % reads, 16 % updates, 12 % inserts, 4 % scans, 4 %
//! deletes. Within each of them the operations have LinkBench's own shares, of which these are the sums, rounded: reads are
//! `get_link_list` and `get_node`, updates `update_link` and `update_node`, inserts `add_link` and `add_node`, deletes
//! `delete_link` and `delete_node`, scans (of several rows by one statement) `count_links` and `multiget_link`.
//!
//! Degrees, skews, the second node of a link, and payloads' lengths are LinkBench's defaults; contents follow from what
//! they belong to. Times are a counter. In every state a count is the number of visible links.

use super::{InPool, Program, part_of, parts, payload, run_share, writing};
use crate::list::{self, Given, Listed, OnWorkload, Row};
use crate::random::{Random, splitmix64};
use crate::zipf::Zipf;
use crate::{Failure, Outcome, Progress, Recorder, Share};
use rusqlite::{Connection, OptionalExtension};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

const TYPES: u64 = 2;
const LIST_LIMIT: i64 = 10_000;
const LINK_BYTES: (f64, usize) = (8.0, 255);
const NODE_BYTES: (f64, usize) = (128.0, 8_192);
/// Rows of nodes that a transaction of the load makes, with their links.
const BATCH: u64 = 200;
/// The chance that a multiget asks for no further link.
const MULTIGET: f64 = 0.382;
const MULTIGET_MOST: usize = 128;

const TABLES: &str = "
    CREATE TABLE nodetable (id INTEGER PRIMARY KEY, type INTEGER NOT NULL, version INTEGER NOT NULL,
        time INTEGER NOT NULL, data BLOB NOT NULL);
    CREATE TABLE linktable (id1 INTEGER NOT NULL, id2 INTEGER NOT NULL, link_type INTEGER NOT NULL,
        visibility INTEGER NOT NULL, data BLOB NOT NULL, time INTEGER NOT NULL,
        version INTEGER NOT NULL, PRIMARY KEY (link_type, id1, id2)) WITHOUT ROWID;
    CREATE INDEX id1_type ON linktable (id1, link_type, visibility, time, id2, version, data);
    CREATE TABLE counttable (id INTEGER NOT NULL, link_type INTEGER NOT NULL, count INTEGER NOT NULL,
        time INTEGER NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (id, link_type)) WITHOUT ROWID;";
const PUT_NODE: &str = "INSERT INTO nodetable VALUES (?1, 2048, ?2, ?2, ?3)";
const GET_NODE_SQL: &str = "SELECT version, data FROM nodetable WHERE id = ?1";
const UPDATE_NODE_SQL: &str =
    "UPDATE nodetable SET version = ?2, time = ?2, data = ?3 WHERE id = ?1";
const DELETE_NODE_SQL: &str = "DELETE FROM nodetable WHERE id = ?1";
const PUT_LINK: &str = "INSERT INTO linktable VALUES (?1, ?2, ?3, 1, ?5, ?4, ?4)
    ON CONFLICT DO UPDATE SET visibility = 1, data = ?5, time = ?4, version = ?4";
const GET_LINKS: &str = "SELECT id2, version, data FROM linktable WHERE id1 = ?1 AND link_type = ?2
    AND visibility = 1 AND time >= 0 AND time <= ?3 ORDER BY time DESC LIMIT ?4";
const VISIBILITY: &str =
    "SELECT visibility FROM linktable WHERE id1 = ?1 AND id2 = ?2 AND link_type = ?3";
const HIDE_LINK: &str =
    "UPDATE linktable SET visibility = 0 WHERE id1 = ?1 AND id2 = ?2 AND link_type = ?3";
const ADD_TO_COUNT: &str = "INSERT INTO counttable VALUES (?1, ?2, max(?3, 0), ?4, 0)
    ON CONFLICT DO UPDATE SET count = max(count + ?3, 0), time = ?4, version = version + 1";
const GET_COUNT: &str = "SELECT count FROM counttable WHERE id = ?1 AND link_type = ?2";

/// Shares of the operations: LinkBench's, scaled to the sums of the paper's table, in parts of ten thousand.
const SHARES: [(usize, u64); 10] = [
    (GET_LINK_LIST, 5_100),
    (GET_NODE, 1_300),
    (UPDATE_LINK, 834),
    (UPDATE_NODE, 766),
    (ADD_LINK, 933),
    (ADD_NODE, 267),
    (COUNT_LINKS, 361),
    (MULTIGET_LINK, 39),
    (DELETE_LINK, 299),
    (DELETE_NODE, 101),
];
const GET_LINK_LIST: usize = 0;
const GET_NODE: usize = 1;
const UPDATE_LINK: usize = 2;
const UPDATE_NODE: usize = 3;
const ADD_LINK: usize = 4;
const ADD_NODE: usize = 5;
const COUNT_LINKS: usize = 6;
const MULTIGET_LINK: usize = 7;
const DELETE_LINK: usize = 8;
const DELETE_NODE: usize = 9;

/// Whether a link is visible, and its version.
type Link = (bool, u64);

/// A thread's rows: its nodes, and the links from them.
#[derive(Default)]
struct Part {
    nodes: HashMap<u64, u64>,
    links: HashMap<(u64, u64), BTreeMap<u64, Link>>,
    next: u64,
    /// The last time, which counts the thread's writes.
    time: u64,
}

/// The skews of the accesses.
struct Skews {
    link_reads: Zipf,
    link_writes: Zipf,
    node_reads: Zipf,
    node_writes: Zipf,
}

/// The program.
pub struct LinkBench {
    nodes: u64,
    parts: Vec<Mutex<Part>>,
    skews: Skews,
}

/// The number of links of a node at first: LinkBench's distribution, between whose points this interpolates.
fn degree(id: u64) -> u64 {
    const POINTS: [(f64, u64); 9] = [
        (0.453_3, 0),
        (0.774_6, 1),
        (0.869_6, 2),
        (0.919_9, 3),
        (0.958_3, 5),
        (0.983_3, 10),
        (0.993_3, 20),
        (0.999, 264),
        (0.999_9, 6_051),
    ];
    let drawn = (splitmix64(id ^ 0xDE6_4EE) >> 11) as f64 / (1_u64 << 53) as f64;
    let mut before = (0.0, 0);
    for point in POINTS {
        if drawn < point.0 {
            let share = (drawn - before.0) / (point.0 - before.0);
            return before.1 + ((point.1 - before.1) as f64 * share).ceil() as u64;
        }
        before = point;
    }
    POINTS[8].1
}

fn link_data(id1: u64, id2: u64, kind: u64, version: u64) -> Vec<u8> {
    payload::bytes(payload::name(&[id1, id2, kind, version]), LINK_BYTES.0, LINK_BYTES.1)
}

fn node_data(id: u64, version: u64) -> Vec<u8> {
    payload::bytes(payload::name(&[id, version]), NODE_BYTES.0, NODE_BYTES.1)
}

fn blob<'r>(row: &'r rusqlite::Row<'_>, column: usize) -> rusqlite::Result<&'r [u8]> {
    Ok(row.get_ref(column)?.as_blob()?)
}

fn int(number: u64) -> i64 {
    number as i64
}

impl LinkBench {
    /// With so many nodes at first, for so many threads.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(nodes: u64, threads: usize) -> Outcome<Self> {
        let count = threads.max(1) as u64;
        if nodes < count {
            return Err(Failure::Parameters("LinkBench needs a node for each thread".to_owned()));
        }
        let part = |number: u64| {
            let mut part = Part { next: nodes.next_multiple_of(count) + number, ..Part::default() };
            for id in (number..nodes).step_by(count as usize) {
                part.nodes.insert(id, 0);
                for (kind, id2) in first_links(id, nodes) {
                    part.links.entry((id, kind)).or_default().insert(id2, (true, 0));
                }
            }
            part
        };
        let skews = Skews {
            link_reads: Zipf::new(nodes, 0.8),
            link_writes: Zipf::new(nodes, 0.741),
            node_reads: Zipf::new(nodes, 0.625),
            node_writes: Zipf::new(nodes, 0.606),
        };
        Ok(LinkBench { nodes, parts: parts(threads, part), skews })
    }

    /// A node: hot ones are scattered over the ids, apart for each skew.
    fn node(&self, skew: &Zipf, random: &mut Random) -> u64 {
        let rank = skew.draw(random);
        splitmix64(rank ^ self.nodes) % self.nodes
    }

    /// The thread's node next to this one.
    fn own(&self, id: u64, thread: u64) -> u64 {
        let threads = self.parts.len() as u64;
        let own = id - id % threads + thread;
        if own < self.nodes { own } else { own - threads }
    }

    /// A second node, which is that of an existing link with about this chance.
    fn second(&self, id1: u64, existing: f64, random: &mut Random) -> u64 {
        let width = (degree(id1) as f64 / existing).ceil().max(1.0) as u64;
        id1 + random.below(width)
    }
}

/// The links of a node at first: their types, and the nodes that they lead to.
fn first_links(id: u64, nodes: u64) -> impl Iterator<Item = (u64, u64)> {
    let count = degree(id).min(nodes);
    (0..count).map(move |number| (number % TYPES, id + number))
}

/// Adds a link, or changes one. Returns whether it was visible.
fn put_link(db: &Connection, (id1, id2, kind): (u64, u64, u64), time: u64) -> Outcome<bool> {
    writing(db, || {
        let key = (int(id1), int(id2), int(kind));
        let before: Option<i64> =
            db.prepare_cached(VISIBILITY)?.query_row(key, |row| row.get(0)).optional()?;
        let data = link_data(id1, id2, kind, time);
        db.prepare_cached(PUT_LINK)?.execute((key.0, key.1, key.2, int(time), data))?;
        let was_visible = before == Some(1);
        if !was_visible {
            db.prepare_cached(ADD_TO_COUNT)?.execute((key.0, key.2, 1, int(time)))?;
        }
        Ok(was_visible)
    })
}

/// Hides a link. Returns whether it was visible.
fn hide_link(db: &Connection, (id1, id2, kind): (u64, u64, u64), time: u64) -> Outcome<bool> {
    writing(db, || {
        let key = (int(id1), int(id2), int(kind));
        let before: Option<i64> =
            db.prepare_cached(VISIBILITY)?.query_row(key, |row| row.get(0)).optional()?;
        if before != Some(1) {
            return Ok(false);
        }
        db.prepare_cached(HIDE_LINK)?.execute(key)?;
        db.prepare_cached(ADD_TO_COUNT)?.execute((key.0, key.2, -1, int(time)))?;
        Ok(true)
    })
}

fn get_node(db: &Connection, id: u64) -> Outcome<Option<u64>> {
    let mut select = db.prepare_cached(GET_NODE_SQL)?;
    let row = select
        .query_row((int(id),), |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, Vec<u8>>(1)?)))
        .optional()?;
    match row {
        None => Ok(None),
        Some((version, data)) if data == node_data(id, version) => Ok(Some(version)),
        Some(_) => Err(Failure::wrong(format!("node {id} has data that was never written"))),
    }
}

/// The visible links of a node and a type, checked: the nodes that they lead to, with their versions.
fn get_links(db: &Connection, id1: u64, kind: u64) -> Outcome<BTreeMap<u64, u64>> {
    let mut select = db.prepare_cached(GET_LINKS)?;
    let mut rows = select.query((int(id1), int(kind), i64::MAX, LIST_LIMIT))?;
    let (mut found, mut before) = (BTreeMap::new(), u64::MAX);
    while let Some(row) = rows.next()? {
        let (id2, version) = (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64);
        if blob(row, 2)? != link_data(id1, id2, kind, version) {
            return Err(wrong_link(id1, id2, "data that was never written"));
        }
        if version > before {
            return Err(wrong_link(id1, id2, "a place in the list that is not its time's"));
        }
        before = version;
        found.insert(id2, version);
    }
    Ok(found)
}

fn wrong_link(id1: u64, id2: u64, what: &str) -> Failure {
    Failure::wrong(format!("the link from {id1} to {id2} has {what}"))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, id: u64, found: T, model: T) -> Outcome {
    if found == model {
        return Ok(());
    }
    Err(Failure::Wrong(format!("{what} of node {id}: {found:?}, and should be {model:?}")))
}

impl Part {
    fn visible(&self, id1: u64, kind: u64) -> BTreeMap<u64, u64> {
        let links = self.links.get(&(id1, kind)).into_iter().flatten();
        let visible = links.filter(|(_, (is_visible, _))| *is_visible);
        visible.map(|(id2, (_, version))| (*id2, *version)).collect()
    }

    fn is_visible(&self, (id1, id2, kind): (u64, u64, u64)) -> bool {
        let link = self.links.get(&(id1, kind)).and_then(|links| links.get(&id2));
        link.is_some_and(|(is_visible, _)| *is_visible)
    }
}

/// The kind of the next operation.
fn kind(random: &mut Random) -> usize {
    let mut drawn = random.below(SHARES.iter().map(|(_, share)| share).sum());
    for (kind, share) in SHARES {
        if drawn < share {
            return kind;
        }
        drawn -= share;
    }
    GET_NODE
}

impl LinkBench {
    fn operate(
        &self,
        db: &Connection,
        part: &mut Part,
        thread: u64,
        kind: usize,
        random: &mut Random,
    ) -> Outcome {
        let Skews { link_reads, link_writes, node_reads, node_writes } = &self.skews;
        let link_type = random.below(TYPES);
        part.time += 1;
        let time = part.time;
        match kind {
            GET_NODE => {
                let id = self.node(node_reads, random);
                let found = get_node(db, id)?;
                if self.own(id, thread) == id {
                    same("version", id, found, part.nodes.get(&id).copied())?;
                }
            }
            UPDATE_NODE => {
                let id = self.own(self.node(node_writes, random), thread);
                let data = node_data(id, time);
                let changed =
                    db.prepare_cached(UPDATE_NODE_SQL)?.execute((int(id), int(time), data))?;
                same("changes", id, changed == 1, part.nodes.contains_key(&id))?;
                part.nodes.entry(id).and_modify(|version| *version = time);
            }
            ADD_NODE => {
                let id = part.next;
                part.next += self.parts.len() as u64;
                let data = node_data(id, time);
                db.prepare_cached(PUT_NODE)?.execute((int(id), int(time), data))?;
                part.nodes.insert(id, time);
            }
            DELETE_NODE => {
                let id = self.own(random.below(self.nodes), thread);
                let gone = db.prepare_cached(DELETE_NODE_SQL)?.execute((int(id),))?;
                same("deletions", id, gone == 1, part.nodes.remove(&id).is_some())?;
            }
            GET_LINK_LIST => {
                let id1 = self.node(link_reads, random);
                let found = get_links(db, id1, link_type)?;
                if self.own(id1, thread) == id1 {
                    same("links", id1, found, part.visible(id1, link_type))?;
                }
            }
            COUNT_LINKS => {
                let id1 = self.node(link_reads, random);
                let found: Option<i64> = db
                    .prepare_cached(GET_COUNT)?
                    .query_row((int(id1), int(link_type)), |row| row.get(0))
                    .optional()?;
                if self.own(id1, thread) == id1 {
                    let links = part.visible(id1, link_type).len() as i64;
                    same("count", id1, found.unwrap_or(0), links)?;
                }
            }
            MULTIGET_LINK => {
                let id1 = self.node(link_reads, random);
                self.multiget(db, part, thread, (id1, link_type), random)?;
            }
            ADD_LINK | UPDATE_LINK => {
                let id1 = self.own(self.node(link_writes, random), thread);
                let existing = if kind == ADD_LINK { 0.05 } else { 0.9 };
                let link = (id1, self.second(id1, existing, random), link_type);
                let was_visible = put_link(db, link, time)?;
                same("a link", id1, was_visible, part.is_visible(link))?;
                let links = part.links.entry((id1, link_type)).or_default();
                links.insert(link.1, (true, time));
            }
            _ => {
                let id1 = self.own(self.node(link_writes, random), thread);
                let link = (id1, self.second(id1, 0.9, random), link_type);
                let was_visible = hide_link(db, link, time)?;
                same("a link", id1, was_visible, part.is_visible(link))?;
                let links = part.links.entry((id1, link_type)).or_default();
                links.entry(link.1).and_modify(|(is_visible, _)| *is_visible = false);
            }
        }
        Ok(())
    }

    /// Several links of a node, by one statement.
    fn multiget(
        &self,
        db: &Connection,
        part: &Part,
        thread: u64,
        (id1, link_type): (u64, u64),
        random: &mut Random,
    ) -> Outcome {
        let mut wanted = vec![self.second(id1, 0.5, random)];
        while wanted.len() < MULTIGET_MOST && random.unit() >= MULTIGET {
            wanted.push(self.second(id1, 0.5, random));
        }
        wanted.sort_unstable();
        wanted.dedup();
        let places = vec!["?"; wanted.len()].join(",");
        let mut select = db.prepare_cached(&format!(
            "SELECT id2, version, data FROM linktable \
             WHERE id1 = ? AND link_type = ? AND visibility = 1 AND id2 IN ({places})"
        ))?;
        let keys = [id1, link_type].into_iter().chain(wanted.iter().copied()).map(int);
        let mut rows = select.query(rusqlite::params_from_iter(keys))?;
        let mut found = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let (id2, version) = (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64);
            if blob(row, 2)? != link_data(id1, id2, link_type, version) {
                return Err(wrong_link(id1, id2, "data that was never written"));
            }
            found.insert(id2, version);
        }
        if self.own(id1, thread) != id1 {
            return Ok(());
        }
        let mut model = part.visible(id1, link_type);
        model.retain(|id2, _| wanted.contains(id2));
        same("some links", id1, found, model)
    }
}

impl Program for LinkBench {
    const KINDS: &'static [&'static str] = &[
        "get-link-list",
        "get-node",
        "update-link",
        "update-node",
        "add-link",
        "add-node",
        "count-links",
        "multiget-link",
        "delete-link",
        "delete-node",
    ];

    fn load_size(&self) -> u64 {
        self.nodes
    }

    fn load(&self, db: &Connection, progress: &Progress) -> Outcome {
        db.execute_batch(TABLES)?;
        for first in (0..self.nodes).step_by(BATCH as usize) {
            let last = (first + BATCH).min(self.nodes);
            writing(db, || (first..last).try_for_each(|id| self.load_node(db, id)))?;
            progress.loaded(last - first)?;
        }
        Ok(())
    }

    fn run_thread(
        &self,
        db: &Connection,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let mut part = part_of(&self.parts, &share)?;
        let thread = share.thread as u64;
        run_share(&mut share, recorder, kind, |kind, random| {
            self.operate(db, &mut part, thread, kind, random)
        })
    }

    fn check(&self, db: &Connection) -> Outcome {
        let (mut nodes, mut links) = (HashMap::new(), HashMap::new());
        let mut select = db.prepare("SELECT id, version, data FROM nodetable")?;
        let mut rows = select.query(())?;
        while let Some(row) = rows.next()? {
            let (id, version) = (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64);
            let is_right = blob(row, 2)? == node_data(id, version);
            same("data", id, is_right, true)?;
            nodes.insert(id, version);
        }
        let mut select =
            db.prepare("SELECT id1, link_type, id2, visibility, version, data FROM linktable")?;
        let mut rows = select.query(())?;
        while let Some(row) = rows.next()? {
            let number = |column| row.get::<_, i64>(column).map(|number| number as u64);
            let (id1, kind, id2, version) = (number(0)?, number(1)?, number(2)?, number(4)?);
            let is_right = blob(row, 5)? == link_data(id1, id2, kind, version);
            same("a link's data", id1, is_right, true)?;
            let entry: &mut BTreeMap<_, _> = links.entry((id1, kind)).or_default();
            entry.insert(id2, (number(3)? == 1, version));
        }
        for part in &self.parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            for (id, version) in &part.nodes {
                same("version", *id, nodes.remove(id), Some(*version))?;
            }
            for (key, model) in part.links.iter().filter(|(_, links)| !links.is_empty()) {
                same("links", key.0, links.remove(key).as_ref(), Some(model))?;
            }
        }
        let left = (nodes.len(), links.len());
        same("rows that nobody has written", 0, left, (0, 0))?;
        self.check_counts(db)
    }
}

impl LinkBench {
    fn load_node(&self, db: &Connection, id: u64) -> Outcome {
        db.prepare_cached(PUT_NODE)?.execute((int(id), 0, node_data(id, 0)))?;
        let mut counts = [0; TYPES as usize];
        for (kind, id2) in first_links(id, self.nodes) {
            let data = link_data(id, id2, kind, 0);
            db.prepare_cached(PUT_LINK)?.execute((int(id), int(id2), int(kind), 0, data))?;
            counts[kind as usize] += 1;
        }
        for (kind, count) in (0..).zip(counts).filter(|(_, count)| *count > 0) {
            db.prepare_cached(ADD_TO_COUNT)?.execute((int(id), kind, count, 0))?;
        }
        Ok(())
    }

    /// In every state a count is the number of visible links.
    fn check_counts(&self, db: &Connection) -> Outcome {
        let wrong: i64 = db.query_row(
            "SELECT count(*) FROM (SELECT id1 AS id, link_type, sum(visibility) AS links
             FROM linktable GROUP BY id1, link_type) LEFT JOIN counttable USING (id, link_type)
             WHERE links <> coalesce(count, 0)",
            (),
            |row| row.get(0),
        )?;
        if wrong == 0 {
            return Ok(());
        }
        Err(Failure::Wrong(format!("{wrong} counts are not the numbers of visible links")))
    }
}

impl Listed for LinkBench {
    const ROW: Row = Row {
        name: "sqlite-linkbench",
        line: "LinkBench on SQLite in the pool: nodes and links of a social network",
        parameters: &[list::entries("nodes", 10_000)],
        operations: |_| 20_000,
        rolls_back: |_| false,
        roots: &[],
    };

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        let nodes = given.entries();
        let bytes = nodes.saturating_mul(1_500).saturating_add(given.operations * 300);
        Ok(code.run(InPool::new(LinkBench::new(nodes, given.threads)?), bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_the_papers() {
        let sum = |kinds: [usize; 2]| -> u64 {
            SHARES.iter().filter(|(kind, _)| kinds.contains(kind)).map(|(_, share)| share).sum()
        };
        assert_eq!(sum([GET_LINK_LIST, GET_NODE]), 6_400);
        assert_eq!(sum([UPDATE_LINK, UPDATE_NODE]), 1_600);
        assert_eq!(sum([ADD_LINK, ADD_NODE]), 1_200);
        assert_eq!(sum([COUNT_LINKS, MULTIGET_LINK]), 400);
        assert_eq!(sum([DELETE_LINK, DELETE_NODE]), 400);
    }

    #[test]
    fn degrees_are_linkbenchs() {
        let mut degrees: Vec<u64> = (0..100_000).map(degree).collect();
        degrees.sort_unstable();
        let share = |most: u64| degrees.partition_point(|degree| *degree <= most) as f64 / 1e5;
        for (most, expected) in [(0, 0.4533), (1, 0.7746), (5, 0.9583), (20, 0.9933)] {
            assert!((share(most) - expected).abs() < 0.01, "{most}: {}", share(most));
        }
    }
}
