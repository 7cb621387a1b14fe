//! SORT and SORT_RO.

use super::{Call, Command, Failure, Outcome, Run, find, lists};
use crate::acl;
use crate::keyspace::hash::Hash;
use crate::keyspace::list::List;
use crate::keyspace::set::Set;
use crate::keyspace::zset::SortedSet;
use crate::keyspace::{End, Kind, text};
use crate::protocol::number;
use std::cmp::Ordering;

const ONE: (i32, i32, i32) = (1, 1, 1);

pub(super) const TABLE: &[Command] = &[
    Command::new("sort", -2, ONE, Run::Write(sort), "Sorts elements, and answers or stores them."),
    Command::new("sort_ro", -2, ONE, Run::Read(sort_ro), "Sorts elements, and answers them."),
];

/// Bytes of memory that an element takes, besides its own, as a part of a reply.
const BULK: usize = 6;

/// The arguments.
struct Query<'a> {
    by: Option<&'a [u8]>,
    gets: Vec<&'a [u8]>,
    offset: i64,
    count: i64,
    descending: bool,
    alpha: bool,
    store: Option<&'a [u8]>,
}

impl<'a> Query<'a> {
    fn parse(call: &Call<'a>, stores: bool) -> Outcome<Self> {
        let args = call.args;
        let mut query = Query {
            by: None,
            gets: Vec::new(),
            offset: 0,
            count: -1,
            descending: false,
            alpha: false,
            store: None,
        };
        // Keys that patterns name follow from data: all must be allowed.
        let reads_all = call.client.limited_user().is_none_or(|user| {
            find(args.at(0)).is_none_or(|command| acl::reads_all_keys(&user, command, args))
        });
        let check = |option: &str, is_key: bool| match reads_all || !is_key {
            true => Ok(()),
            false => Err(Failure::say(format!(
                "ERR {option} option of SORT denied due to insufficient ACL permissions."
            ))),
        };
        let mut at = 2;
        while at < args.len() {
            let left = args.len() - at - 1;
            match () {
                () if args.is(at, "asc") => query.descending = false,
                () if args.is(at, "desc") => query.descending = true,
                () if args.is(at, "alpha") => query.alpha = true,
                () if args.is(at, "limit") && left >= 2 => {
                    (query.offset, query.count) = (call.integer(at + 1)?, call.integer(at + 2)?);
                    at += 2;
                }
                () if stores && args.is(at, "store") && left >= 1 => {
                    query.store = Some(args.at(at + 1));
                    at += 1;
                }
                () if args.is(at, "by") && left >= 1 => {
                    query.by = Some(args.at(at + 1));
                    check("BY", args.at(at + 1).contains(&b'*'))?;
                    at += 1;
                }
                () if args.is(at, "get") && left >= 1 => {
                    query.gets.push(args.at(at + 1));
                    check("GET", true)?;
                    at += 1;
                }
                () => return Err(Failure::SYNTAX),
            }
            at += 1;
        }
        Ok(query)
    }

    /// Whether elements are left in their order: they are to be sorted by one and the same key.
    fn keeps_order(&self) -> bool {
        self.by.is_some_and(|by| !by.contains(&b'*'))
    }

    /// The part of `len` elements that is wanted.
    fn part(&self, len: usize) -> std::ops::Range<usize> {
        let start = usize::try_from(self.offset).unwrap_or(0).min(len);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(len)
    }

    /// Where to read `len` elements that have an order: all, or if that order is kept the wanted ones. None if there are
    /// none.
    fn place(&self, len: u64) -> Option<Place> {
        let whole = usize::try_from(len).unwrap_or(usize::MAX);
        let part = if self.keeps_order() { self.part(whole) } else { 0..whole };
        let backwards = self.keeps_order() && self.descending;
        let first = part.start as u64;
        (!part.is_empty()).then(|| Place {
            first: if backwards { len - 1 - first } else { first },
            backwards,
            count: part.len(),
        })
    }
}

/// Which elements are read: so many from the first one on.
struct Place {
    first: u64,
    backwards: bool,
    count: usize,
}

/// What an element is sorted by.
enum Weight {
    Number(f64),
    Text(Option<Vec<u8>>),
    /// The element itself.
    Own,
}

fn sort(call: &mut Call<'_>) -> Outcome {
    run(call, true)
}

fn sort_ro(call: &mut Call<'_>) -> Outcome {
    run(call, false)
}

fn run(call: &mut Call<'_>, stores: bool) -> Outcome {
    let mut query = Query::parse(call, stores)?;
    let key = call.args.at(1);
    let entry = call.look(key)?;
    let kind = entry.map(|entry| entry.kind());
    if !matches!(kind, None | Some(Kind::List | Kind::Set | Kind::SortedSet)) {
        return Err(Failure::WRONG_TYPE);
    }
    // The members of a set have no order that could be stored, or that a script could rely on.
    if query.keeps_order() && kind == Some(Kind::Set) && (query.store.is_some() || !call.may_wait) {
        (query.by, query.alpha) = (None, true);
    }
    let elements = match entry {
        None => Vec::new(),
        Some(_) => elements(call, &query)?,
    };
    if call.out.is_cut() {
        return Ok(());
    }
    // In their own order no more than the wanted ones were read.
    if query.keeps_order() {
        return reply(call, &query, &elements);
    }
    let sorted = sorted(call, &query, elements)?;
    if call.out.is_cut() {
        return Ok(());
    }
    reply(call, &query, &sorted[query.part(sorted.len())])
}

/// The elements in the order that they have; if that is kept, those alone that LIMIT leaves. What is too much to be
/// answered is not collected.
fn elements(call: &mut Call<'_>, query: &Query<'_>) -> Outcome<Vec<Vec<u8>>> {
    let Some(entry) = call.look(call.args.at(1))? else { return Ok(Vec::new()) };
    let (mut all, mut bytes) = (Vec::new(), 0);
    match entry.kind() {
        Kind::List => {
            let list = List::load(call.tx, Some(entry))?;
            let Some(place) = query.place(list.len()) else { return Ok(all) };
            let out = &mut call.out;
            list.walk(call.tx, place.first, place.backwards, &mut |tx, item| {
                let element = item.read(tx)?;
                bytes += element.len() + BULK;
                all.push(element);
                Ok::<bool, Failure>(out.has_room(bytes) && all.len() < place.count)
            })?;
        }
        Kind::Set => {
            let set = Set::load(call.tx, Some(entry))?;
            let len = usize::try_from(set.len(call.tx)?).unwrap_or(usize::MAX);
            let part = if query.keeps_order() { query.part(len) } else { 0..len };
            let (out, mut index) = (&mut call.out, 0);
            set.walk(call.tx, &mut |_, member| {
                if part.contains(&index) {
                    bytes += member.len() + BULK;
                    all.push(member.to_vec());
                }
                index += 1;
                Ok::<bool, Failure>(out.has_room(bytes) && index < part.end)
            })?;
        }
        _ => {
            let set = SortedSet::load(call.tx, entry)?;
            let len = set.len(call.tx)?;
            let Some(place) = query.place(len) else { return Ok(all) };
            let mut walk = set.walk_at(call.tx, place.first, place.backwards)?;
            for _ in 0..place.count {
                let Some((_, member)) = walk.next(call.tx)? else { break };
                bytes += member.len() + BULK;
                all.push(member);
                if !call.out.has_room(bytes) {
                    break;
                }
            }
        }
    }
    Ok(all)
}

/// The elements, sorted. If what they are sorted by is too much, the reply is cut.
fn sorted(call: &mut Call<'_>, query: &Query<'_>, elements: Vec<Vec<u8>>) -> Outcome<Vec<Vec<u8>>> {
    let mut weighed = Vec::with_capacity(elements.len());
    let mut bytes = 0;
    for element in elements {
        let weight = match (query.by, query.alpha) {
            (None, true) => Weight::Own,
            (None, false) => Weight::Number(score(&element)?),
            (Some(pattern), alpha) => {
                let found = look_up(call, pattern, &element)?;
                match alpha {
                    // A long value may be that of many elements, each with its copy.
                    true => {
                        bytes += found.as_ref().map_or(0, Vec::len);
                        if !call.out.has_room(bytes) {
                            return Ok(Vec::new());
                        }
                        Weight::Text(found)
                    }
                    false => Weight::Number(found.map_or(Ok(0.0), |text| score(&text))?),
                }
            }
        };
        weighed.push((weight, element));
    }
    weighed.sort_by(|(a, one), (b, other)| {
        let order = match (a, b) {
            (Weight::Number(a), Weight::Number(b)) => {
                a.partial_cmp(b).unwrap_or(Ordering::Equal).then_with(|| one.cmp(other))
            }
            (Weight::Text(a), Weight::Text(b)) => a.cmp(b),
            _ => one.cmp(other),
        };
        if query.descending { order.reverse() } else { order }
    });
    Ok(weighed.into_iter().map(|(_, element)| element).collect())
}

/// A number to sort by; an empty string is zero, but one of spaces is not.
fn score(text: &[u8]) -> Outcome<f64> {
    let digits = text.trim_ascii_start();
    let score = if text.is_empty() { Some(0.0) } else { number::parse_f64(digits) };
    let wrong = "ERR One or more scores can't be converted into double";
    score.ok_or(Failure::Say(wrong.into()))
}

/// The value that a pattern names for an element: a key's string, or with `->` a hash's field.
fn look_up(call: &mut Call<'_>, pattern: &[u8], element: &[u8]) -> Outcome<Option<Vec<u8>>> {
    if pattern == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some(star) = pattern.iter().position(|&byte| byte == b'*') else { return Ok(None) };
    let rest = &pattern[star + 1..];
    let arrow = rest.windows(2).position(|two| two == b"->").filter(|at| at + 2 < rest.len());
    let (after, field) = match arrow {
        Some(at) => (&rest[..at], Some(&rest[at + 2..])),
        None => (rest, None),
    };
    let key = [&pattern[..star], element, after].concat();
    let Some(entry) = call.look(&key)? else { return Ok(None) };
    match (entry.kind(), field) {
        (Kind::Hash, Some(field)) => Ok(Hash::load(call.tx, Some(entry))?.get(call.tx, field)?),
        (Kind::String, None) => Ok(Some(text::read(call.tx, entry)?)),
        _ => Ok(None),
    }
}

/// Answers, or stores, the elements, or what patterns name for them.
fn reply(call: &mut Call<'_>, query: &Query<'_>, elements: &[Vec<u8>]) -> Outcome {
    let count = elements.len() * query.gets.len().max(1);
    let Some(target) = query.store else {
        call.out.array(count);
        for element in elements {
            if query.gets.is_empty() {
                call.out.bulk(element);
            }
            for pattern in &query.gets {
                match look_up(call, pattern, element)? {
                    Some(value) => call.out.bulk(&value),
                    None => call.out.null(),
                }
                // No value is read for nothing.
                if call.out.is_cut() {
                    return Ok(());
                }
            }
            if call.out.is_cut() {
                break;
            }
        }
        return Ok(());
    };
    let mut list = List::load(call.tx, None)?;
    for element in elements {
        if query.gets.is_empty() {
            list.push(call.tx, End::Right, element)?;
        }
        for pattern in &query.gets {
            let value = look_up(call, pattern, element)?.unwrap_or_default();
            list.push(call.tx, End::Right, &value)?;
        }
    }
    call.remove(target)?;
    if count > 0 {
        lists::save(call, target, None, list)?;
    }
    call.out.size(count as u64);
    Ok(())
}
