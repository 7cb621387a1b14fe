//! The checks of an image: it opens, it is whole, everything acknowledged is there, and nothing in part.
//!
//! The image's file is opened read-only, so that its recovery happens on a private mapping and the file can be made the
//! next image; now and then one is opened as a program would, used and closed.

use crate::history::History;
use crate::work::{
    CONNECTIONS, ELEMENTS, ENTRIES, GROUP, MEMBERS, PENDING, RING, SCRIPTED, SHARED, SLOTS, Step,
    TAGS, consumer_name, list_key, member_name, order_key, place_key, ring_key, scripted_key,
    slot_field, stamp_key, stream_key, tag_name, tags_key, value_key,
};
use perdura::{AnyHeap, Domain, EngineKind, Error, OpenError, Opening, Options, Tx};
use perdura_memory::{AnyMemory, Mapped};
use perdura_server::{Keyspace, check_root};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// For each connection, the last transaction in an image, by its place in the connection's list.
type Places = [Option<usize>; CONNECTIONS];

/// Checks the image at `path`, of a crash point at `position` of the trace.
///
/// # Errors
/// The first problem.
pub fn verify(path: &Path, history: &History, position: u64) -> Result<(), String> {
    guarded(|| open_privately(path, history, position))
}

/// As [`verify`], after the pool was opened as a program does it, written to, closed, and opened
/// again. The file is changed.
///
/// # Errors
/// The first problem.
pub fn use_and_verify(path: &Path, history: &History, position: u64) -> Result<(), String> {
    guarded(|| match use_pool(path) {
        Err(OpenError::NotAPool { .. }) if !history.is_made(position) => Ok(()),
        Err(error) => Err(format!("cannot be opened and used: {error}")),
        Ok(()) => open_privately(path, history, position)
            .map_err(|problem| format!("after being opened, used and closed: {problem}")),
    })
}

fn guarded(check: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!("a panic: {}", text.unwrap_or_else(|| "without words".to_owned())))
    })
}

fn open_privately(path: &Path, history: &History, position: u64) -> Result<(), String> {
    let opening = Opening { accept_weaker: true, force: false };
    let heap = Mapped::open_read_only(path).map_err(OpenError::from).and_then(|memory| {
        let memory = Arc::new(AnyMemory::new(Arc::new(memory)));
        <dyn AnyHeap>::open(EngineKind::Volatile, memory, opening)
    });
    let heap = match heap {
        Ok(heap) => heap,
        Err(OpenError::NotAPool { .. }) if !history.is_made(position) => return Ok(()),
        Err(error) => return Err(format!("cannot be opened: {error}")),
    };
    if let Some(problem) = heap.check(&check_root).problems.first() {
        return Err(format!("damaged: {problem}"));
    }
    let mut session = heap.session().map_err(|error| error.to_string())?;
    let mut verdict = Ok(());
    let outcome = session.read(|tx| {
        verdict = contents(tx, history, position)?;
        Ok(())
    });
    outcome.map_err(|error| format!("cannot be read: {error}"))?;
    verdict
}

fn use_pool(path: &Path) -> Result<(), OpenError> {
    let pool = Options::new().domain(Some(Domain::Process)).accept_weaker(true).open(path)?;
    let mut handle = pool.session()?;
    handle.transaction(|tx| {
        let keyspace = Keyspace::open(tx)?;
        let text = "x".repeat(2000);
        keyspace.set_fields(tx, b"afterwards", &[(b"text", text.as_bytes())])?;
        keyspace.remove(tx, b"afterwards")?;
        Ok(())
    })?;
    drop(handle);
    Ok(pool.close()?)
}

/// Compares the contents with those required. The outer error is a failure to read.
fn contents(
    tx: &mut dyn Tx,
    history: &History,
    position: u64,
) -> Result<Result<(), String>, Error> {
    let keyspace = Keyspace::find(tx)?;
    let mut places: Places = [None; CONNECTIONS];
    let mut sum = 0;
    for (connection, place) in places.iter_mut().enumerate() {
        let Some(keyspace) = keyspace else {
            if history.allowed(connection, position).least.is_some() {
                return Ok(Err("everything is gone: there is no keyspace".to_owned()));
            }
            continue;
        };
        let last = text(keyspace.field(tx, place_key(connection).as_bytes(), b"last")?);
        match last_of(history, connection, position, last.as_deref()) {
            Ok(last) => *place = last,
            Err(problem) => return Ok(Err(problem)),
        }
        let steps = place.map_or_else(Vec::new, |place| history.done(connection, place));
        sum += steps.last().map_or(0, |step| step.number);
        if let Err(problem) = keys(tx, keyspace, connection, &steps)? {
            let last = last.unwrap_or_else(|| "none".to_owned());
            return Ok(Err(format!(
                "connection {connection}, after its transaction {last}: {problem}"
            )));
        }
    }
    let Some(keyspace) = keyspace else { return Ok(Ok(())) };
    let count = text(keyspace.field(tx, SHARED.0.as_bytes(), SHARED.1.as_bytes())?);
    let count = count.map_or(Some(0), |count| count.parse().ok());
    if count != Some(sum) {
        return Ok(Err(format!(
            "the connections' transactions are {sum}, and the count that each of them raised is {count:?}"
        )));
    }
    Ok(order(history, position, &places, sum))
}

/// Which transaction of a connection `last` stands for.
fn last_of(
    history: &History,
    connection: usize,
    position: u64,
    last: Option<&str>,
) -> Result<Option<usize>, String> {
    let attempts = &history.connections[connection];
    let stamp = |index: usize| format!("{}.{}", attempts[index].life, attempts[index].number);
    let allowed = history.allowed(connection, position);
    let least = allowed.least.map(stamp);
    let Some(last) = last else {
        return match least {
            None => Ok(None),
            Some(least) => Err(lost(connection, &least, "nothing")),
        };
    };
    let mut may_be = allowed.least.into_iter().chain(allowed.others);
    match may_be.find(|&index| stamp(index) == last) {
        Some(index) => Ok(Some(index)),
        None => Err(lost(connection, &least.unwrap_or_else(|| "nothing".to_owned()), last)),
    }
}

fn lost(connection: usize, acknowledged: &str, found: &str) -> String {
    format!(
        "connection {connection}: acknowledged was transaction {acknowledged}, and the last one there is {found}"
    )
}

/// Compares the keys of one connection with the result of the transactions `steps`.
fn keys(
    tx: &mut dyn Tx,
    keyspace: Keyspace,
    connection: usize,
    steps: &[Step],
) -> Result<Result<(), String>, Error> {
    let newest = |count: u64, index: u64| {
        steps.iter().rev().find(|step| step.number % count == index).copied()
    };
    let mut differing = None;
    let mut compare = |key: String, actual: Option<String>, expected: Option<String>| {
        if actual != expected && differing.is_none() {
            differing = Some(format!("{key} is {}, not {}", short(&actual), short(&expected)));
        }
    };
    let at = place_key(connection);
    for index in 0..SLOTS {
        let field = slot_field(index);
        let actual = text(keyspace.field(tx, at.as_bytes(), field.as_bytes())?);
        compare(format!("{at} {field}"), actual, newest(SLOTS, index).map(Step::stamp));
    }
    let value = value_key(connection);
    let actual = text(keyspace.field(tx, value.as_bytes(), b"text")?);
    compare(value, actual, steps.last().map(|step| step.text()));
    for index in 0..RING {
        let ring = ring_key(connection, index);
        let actual = text(keyspace.field(tx, ring.as_bytes(), b"text")?);
        let expected = newest(RING, index).filter(|step| !step.deletes()).map(Step::text);
        compare(ring, actual, expected);
    }
    let order = order_key(connection);
    let mut members = BTreeMap::new();
    keyspace.range(tx, order.as_bytes(), f64::NEG_INFINITY, &mut |score, member| {
        members.insert(String::from_utf8_lossy(member).into_owned(), score);
        true
    })?;
    let numbers = (0..MEMBERS).filter_map(|index| {
        newest(MEMBERS, index).map(|step| (member_name(index), step.number as f64))
    });
    let expected: BTreeMap<String, f64> = numbers.collect();
    if members != expected {
        compare(order, Some(format!("{members:?}")), Some(format!("{expected:?}")));
    }
    let list = list_key(connection);
    let mut elements = Vec::new();
    keyspace.each_element(tx, list.as_bytes(), &mut |element| {
        elements.push(String::from_utf8_lossy(element).into_owned());
        true
    })?;
    let expected: Vec<String> =
        steps.iter().rev().take(ELEMENTS as usize).map(|step| step.text()).collect();
    if elements != expected {
        compare(list, Some(elements.join(" ")), Some(expected.join(" ")));
    }
    let tags = tags_key(connection);
    let mut found = BTreeSet::new();
    keyspace.each_member(tx, tags.as_bytes(), &mut |tag| {
        found.insert(String::from_utf8_lossy(tag).into_owned());
    })?;
    let newest: BTreeMap<u64, &Step> =
        steps.iter().map(|step| (step.number % TAGS, step)).collect();
    let kept = newest.into_iter().filter(|(_, step)| !step.deletes());
    let expected: BTreeSet<String> = kept.map(|(index, _)| tag_name(index)).collect();
    if found != expected {
        compare(tags, Some(format!("{found:?}")), Some(format!("{expected:?}")));
    }
    let hash = stamp_key(connection);
    let actual = text(keyspace.field(tx, hash.as_bytes(), b"stamp")?);
    compare(hash, actual, steps.last().map(|step| step.stamp()));
    let (scripted, mut stamps) = (scripted_key(connection), Vec::new());
    keyspace.each_element(tx, scripted.as_bytes(), &mut |stamp| {
        stamps.push(String::from_utf8_lossy(stamp).into_owned());
        true
    })?;
    let kept = steps.len().saturating_sub(SCRIPTED as usize);
    let expected: Vec<String> = steps[kept..].iter().map(|step| step.stamp()).collect();
    compare(scripted, Some(stamps.join(" ")), Some(expected.join(" ")));
    let (stream, pending) = streams(tx, keyspace, connection)?;
    let (expected_stream, expected_pending) = expected_streams(steps);
    let key = stream_key(connection);
    compare(key.clone(), Some(stream.join(" ")), Some(expected_stream.join(" ")));
    let pending_of = format!("what is pending of {key}");
    compare(pending_of, Some(pending.join(" ")), Some(expected_pending.join(" ")));
    Ok(differing.map_or(Ok(()), Err))
}

/// A stream's entries, and what is pending in its group.
type Streams = (Vec<String>, Vec<String>);

fn streams(tx: &mut dyn Tx, keyspace: Keyspace, connection: usize) -> Result<Streams, Error> {
    let key = stream_key(connection);
    let (mut entries, mut pending) = (Vec::new(), Vec::new());
    keyspace.each_entry(tx, key.as_bytes(), &mut |(ms, seq), texts| {
        let words: Vec<_> = texts.iter().map(|text| String::from_utf8_lossy(text)).collect();
        entries.push(format!("{ms}-{seq} {}", words.join(" ")));
    })?;
    keyspace.each_pending(tx, key.as_bytes(), GROUP.as_bytes(), &mut |(ms, seq), consumer| {
        pending.push(format!("{ms}-{seq} {}", String::from_utf8_lossy(consumer)));
    })?;
    Ok((entries, pending))
}

/// What they are after these transactions.
fn expected_streams(steps: &[Step]) -> Streams {
    let (mut entries, mut pending) = (Vec::new(), BTreeMap::new());
    for step in steps {
        let (number, stamp, text) = (step.number, step.stamp(), step.text());
        entries.push((number, format!("{number}-1 stamp {stamp} text {text}")));
        let excess = entries.len().saturating_sub(ENTRIES as usize);
        entries.drain(..excess);
        pending.insert(number, format!("{number}-1 {}", consumer_name(number)));
        pending.remove(&number.saturating_sub(PENDING));
        if step.deletes() {
            entries.retain(|(other, _)| *other != number - 2);
        }
    }
    (entries.into_iter().map(|(_, entry)| entry).collect(), pending.into_values().collect())
}

/// Checks that exactly the first `count` transactions of all connections are there, as far as their replies gave their
/// places.
fn order(history: &History, position: u64, places: &Places, count: u64) -> Result<(), String> {
    for (connection, place) in places.iter().enumerate() {
        let attempts = &history.connections[connection];
        let stamp = |index: usize| format!("{}.{}", attempts[index].life, attempts[index].number);
        let next = place.map_or(0, |place| place + 1);
        let there = place.and_then(|last| Some((last, attempts[last].place?)));
        if let Some((last, place)) = there.filter(|(_, place)| *place > count) {
            return Err(format!(
                "connection {connection}: transaction {} is there, the {place}th of all, of which there are {count}",
                stamp(last)
            ));
        }
        // A transaction sent after the crash point may have the place of one that was lost later.
        let missing = (next..attempts.len())
            .filter(|&index| attempts[index].sent <= position)
            .find_map(|index| Some((index, attempts[index].place?)));
        if let Some((index, place)) = missing.filter(|(_, place)| *place <= count) {
            return Err(format!(
                "connection {connection}: transaction {} is missing, the {place}th of all, of which {count} are there",
                stamp(index)
            ));
        }
    }
    Ok(())
}

fn text(bytes: Option<Vec<u8>>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn short(text: &Option<String>) -> String {
    const MOST: usize = 60;
    match text {
        None => "missing".to_owned(),
        Some(text) if text.len() > MOST => {
            let begin: String = text.chars().take(MOST).collect();
            format!("'{begin}...' of {} bytes", text.len())
        }
        Some(text) => format!("'{text}'"),
    }
}
