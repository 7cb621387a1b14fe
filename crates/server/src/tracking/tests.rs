use super::notes::Event;
use super::prefixes::{Collision, Prefixes};
use super::table::Table;
use super::{Invalid, Limits, Message, Modes, Name, OwnPrefixes, Tracking};
use crate::command::Random;
use crate::listing::Listing;
use crate::watch::{Touched, Watch};
use std::sync::Arc;

const ALL: Limits = Limits { keys: 0, bytes: usize::MAX };

fn name(text: &str) -> Name {
    Arc::from(text.as_bytes())
}

fn client(tracking: &Tracking, id: u64, modes: Modes, prefixes: &[&str]) -> Arc<Listing> {
    let address: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
    let client = Arc::new(Listing::new(id, address, address));
    let prefixes: Vec<Name> = prefixes.iter().map(|prefix| name(prefix)).collect();
    tracking.begin(&client, modes, 0, &prefixes);
    client
}

fn written(key: &str, by: u64) -> Event {
    Event::Written { key: name(key), by }
}

fn read(watch: &Watch, key: &str, client: u64) -> Event {
    Event::Read { client, place: watch.place(0, key.as_bytes()), key: name(key) }
}

/// Whom messages go to, and what is in them.
fn told(messages: &[Message]) -> Vec<(u64, String)> {
    let text = |what: &Invalid| match what {
        Invalid::All => "all".to_owned(),
        Invalid::Keys(keys) => {
            let keys: Vec<_> = keys.iter().map(|key| String::from_utf8_lossy(key)).collect();
            keys.join(" ")
        }
    };
    messages.iter().map(|Message { to, what }| (to.id, text(what))).collect()
}

fn owned(all: &[(u64, &str)]) -> Vec<(u64, String)> {
    all.iter().map(|(id, text)| (*id, (*text).to_owned())).collect()
}

/// Applies events of a transaction beside which there is no other.
fn apply(tracking: &Tracking, watch: &Watch, events: Vec<Event>) -> Vec<(u64, String)> {
    told(&tracking.apply(events, watch, |place| Some(watch.begun_at(place)), ALL))
}

#[test]
fn a_key_that_was_read_is_told_of_once() {
    let (tracking, watch) = (Tracking::default(), Watch::new(2));
    let _clients = [1, 2].map(|id| client(&tracking, id, Modes::default(), &[]));
    assert!(tracking.is_used());
    let reads = vec![read(&watch, "a", 1), read(&watch, "a", 2), read(&watch, "b", 2)];
    assert_eq!(apply(&tracking, &watch, reads), []);
    let facts = tracking.facts();
    assert_eq!((facts.clients, facts.keys, facts.items, facts.prefixes), (2, 2, 3, 0));
    let told = apply(&tracking, &watch, vec![written("a", 1), written("c", 1)]);
    assert_eq!(told, owned(&[(1, "a"), (2, "a")]));
    assert_eq!(apply(&tracking, &watch, vec![written("a", 1)]), []);
    // In one transaction the order counts.
    let both = vec![written("b", 1), read(&watch, "b", 1)];
    assert_eq!(apply(&tracking, &watch, both), owned(&[(2, "b")]));
    let both = vec![read(&watch, "d", 2), written("d", 1)];
    assert_eq!(apply(&tracking, &watch, both), owned(&[(2, "d")]));
    assert_eq!(apply(&tracking, &watch, vec![written("b", 2)]), owned(&[(1, "b")]));
    assert_eq!(tracking.facts().items, 0);
}

#[test]
fn too_many_keys_are_all_keys() {
    let (tracking, watch) = (Tracking::default(), Watch::new(2));
    let _clients = [1, 2].map(|id| client(&tracking, id, Modes::default(), &[]));
    let _broad = client(&tracking, 3, Modes::BROADCAST, &[""]);
    let names: Vec<String> = (0..40_000).map(|number| format!("{number:080}")).collect();
    let reads = |id| names.iter().map(move |name| (name, id));
    let both = reads(1).chain(reads(2).take(10));
    let read = both.map(|(name, id)| read(&watch, name, id)).collect();
    assert_eq!(apply(&tracking, &watch, read), []);
    let all = names.iter().map(|name| written(name, 9)).collect();
    let told = apply(&tracking, &watch, all);
    let of = |id| told.iter().filter(move |(to, _)| *to == id).map(|(_, text)| text.as_str());
    assert_eq!(of(1).collect::<Vec<_>>(), ["all"]);
    assert!(of(2).eq(names.iter().take(10)));
    assert_eq!(of(3).collect::<Vec<_>>(), ["all"]);
}

#[test]
fn clients_of_a_key_share_a_message() {
    let (tracking, watch) = (Tracking::default(), Watch::new(2));
    let _clients = [1, 2].map(|id| client(&tracking, id, Modes::default(), &[]));
    let reads = vec![read(&watch, "a", 1), read(&watch, "a", 2)];
    assert_eq!(apply(&tracking, &watch, reads), []);
    let messages = tracking.apply(vec![written("a", 0)], &watch, |_| None, ALL);
    assert!(messages.len() == 2 && Arc::ptr_eq(&messages[0].what, &messages[1].what));
}

#[test]
fn a_read_beside_a_write_is_told_of_at_once() {
    let (tracking, watch) = (Tracking::default(), Watch::new(2));
    let _client = client(&tracking, 1, Modes::NO_LOOP, &[]);
    let (place, touched) = (watch.place(0, b"a"), Touched::default());
    let reads = |before: Option<u64>| {
        let messages = tracking.apply(vec![read(&watch, "a", 1)], &watch, |_| before, ALL);
        let told = told(&messages);
        assert_eq!(tracking.facts().keys, usize::from(told.is_empty()));
        tracking.invalidate_all();
        !told.is_empty()
    };
    let before = watch.version_at(place);
    assert!(before.is_some() && !reads(before));
    type Write = fn(&Watch, &Touched);
    let writes: [Write; 3] = [
        |watch, touched| {
            watch.touch(0, b"a", touched);
        },
        |watch, touched| watch.touch_expired(0, b"a", 5, touched),
        |watch, touched| drop(watch.flush(0, touched)),
    ];
    for write in writes {
        let before = watch.version_at(place);
        write(&watch, &touched);
        assert!(reads(before), "a writer has begun since");
        assert!(reads(watch.version_at(place)), "a writer had begun");
        watch.settle(&touched);
        assert!(reads(before), "a writer was there");
        assert!(!reads(watch.version_at(place)));
        let before = watch.version_at(place);
        write(&watch, &touched);
        watch.retract(&touched);
        assert!(!reads(before), "nothing was written");
    }
}

#[test]
fn a_transactions_own_writes_are_not_in_its_way() {
    let watch = Watch::new(2);
    let (place, touched) = (watch.place(3, b"a"), Touched::default());
    let mut versions = std::collections::HashMap::from([(place, watch.version_at(place))]);
    watch.touch(3, b"a", &touched);
    watch.touch_expired(3, b"a", 5, &touched);
    watch.flush(3, &touched);
    watch.flush(4, &touched);
    touched.each(|slot| Watch::add_to_versions(&mut versions, slot));
    assert_eq!(versions[&place], Some(watch.begun_at(place)));
}

#[test]
fn modes_say_what_is_told() {
    let (tracking, watch) = (Tracking::default(), Watch::new(2));
    let quiet = client(&tracking, 1, Modes::NO_LOOP, &[]);
    let _other = client(&tracking, 2, Modes::default(), &[]);
    let read_both = || vec![read(&watch, "ab", 1), read(&watch, "ab", 2)];
    apply(&tracking, &watch, read_both());
    assert_eq!(apply(&tracking, &watch, vec![written("ab", 1)]), owned(&[(2, "ab")]));
    apply(&tracking, &watch, read_both());
    // What was read before is not told of by prefixes.
    tracking.end(&quiet, None);
    let _quiet = client(&tracking, 1, Modes::BROADCAST.and(Modes::NO_LOOP), &["a", "abc"]);
    let _wide = client(&tracking, 3, Modes::BROADCAST, &[""]);
    let events = vec![written("ab", 2), written("ac", 1), written("b", 0)];
    let expected = owned(&[(2, "ab"), (3, "ab ac b"), (1, "ab")]);
    assert_eq!(apply(&tracking, &watch, events), expected);
    // The last one to write a key is the one that counts.
    let events = vec![written("ac", 1), written("ac", 0)];
    assert_eq!(apply(&tracking, &watch, events), owned(&[(3, "ac"), (1, "ac")]));
    let mut all = apply(&tracking, &watch, vec![Event::AllWritten]);
    all.sort();
    assert_eq!(all, owned(&[(1, "all"), (2, "all"), (3, "all")]));
}

#[test]
fn the_table_is_bounded() {
    let (tracking, watch) = (Tracking::default(), Watch::new(2));
    let one = client(&tracking, 1, Modes::default(), &[]);
    let keys: Vec<String> = (0..100).map(|number| format!("key{number}")).collect();
    let reads = keys.iter().map(|key| read(&watch, key, 1)).collect();
    let limits = Limits { keys: 40, bytes: usize::MAX };
    let messages = tracking.apply(reads, &watch, |place| Some(watch.begun_at(place)), limits);
    assert_eq!((messages.len(), tracking.facts().keys), (60, 40));
    assert_eq!(tracking.trim(Limits { keys: 10, bytes: usize::MAX }, 5).len(), 5);
    assert_eq!(tracking.trim(Limits { keys: 10, bytes: usize::MAX }, 500).len(), 25);
    assert_eq!(tracking.trim(Limits { keys: 0, bytes: 1 }, 500).len(), 10);
    assert_eq!(tracking.facts().items, 0);
    apply(&tracking, &watch, vec![read(&watch, "a", 1)]);
    tracking.end(&one, None);
    assert!(!tracking.is_used() && tracking.facts() == super::TrackingFacts::default());
}

#[test]
fn a_table_agrees_with_a_simple_one() {
    let (mut table, mut model) = (Table::default(), std::collections::BTreeSet::new());
    let mut random = Random::new();
    for _ in 0..20_000 {
        let (key, client) = (name(&random.below(50).to_string()), random.below(4));
        match random.below(4) {
            0 => {
                let expected: Vec<u64> =
                    (0..4).filter(|id| model.remove(&(Arc::clone(&key), *id))).collect();
                assert!(table.take(&key).into_iter().eq(expected));
            }
            1 => assert_eq!(table.remove(&key, client), model.remove(&(key, client))),
            _ => {
                table.insert(&key, client);
                model.insert((key, client));
            }
        }
        let keys: std::collections::BTreeSet<_> = model.iter().map(|(key, _)| key).collect();
        assert_eq!((table.len(), table.items()), (keys.len(), model.len()));
        assert_eq!(table.bytes() == 0, model.is_empty());
        assert!(table.draw(&mut random).is_none_or(|drawn| keys.contains(&drawn)));
    }
}

#[test]
fn prefixes_of_a_key_are_found() {
    let mut random = Random::new();
    let mut text = |most: u64| -> String {
        (0..random.below(most)).map(|_| char::from(b'a' + random.below(2) as u8)).collect()
    };
    for _ in 0..300 {
        let mut prefixes = Prefixes::default();
        let all: Vec<String> = (0..20).map(|_| text(6)).collect();
        all.iter().zip(0..).for_each(|(prefix, id)| prefixes.add(&name(prefix), id));
        let key = text(9);
        let mut found = prefixes.of(key.as_bytes());
        found.sort();
        let mut expected: Vec<Name> =
            all.iter().filter(|prefix| key.starts_with(*prefix)).map(|one| name(one)).collect();
        expected.sort();
        expected.dedup();
        assert_eq!(found, expected, "{all:?} {key}");
        all.iter().zip(0..).for_each(|(prefix, id)| prefixes.remove(&name(prefix), id));
        assert_eq!(prefixes.len(), 0);
    }
}

#[test]
fn prefixes_of_one_client_do_not_overlap() {
    let mut own = OwnPrefixes::default();
    let check = |own: &OwnPrefixes, given: &[&str]| {
        let given: Vec<Name> = given.iter().map(|prefix| name(prefix)).collect();
        match own.check(&given) {
            Ok(()) => "fine".to_owned(),
            Err(Collision::Earlier(at, other)) => {
                format!("{at} {}", String::from_utf8_lossy(&other))
            }
            Err(Collision::Given(one, other)) => format!("{one} and {other}"),
        }
    };
    assert_eq!(check(&own, &["foobar", "foo"]), "0 and 1");
    assert_eq!(check(&own, &["foo", "x", "foobar"]), "0 and 2");
    assert_eq!(check(&own, &["foo", "foo"]), "0 and 1");
    assert_eq!(check(&own, &["x", ""]), "0 and 1");
    assert_eq!(check(&own, &["foo", "bar"]), "fine");
    ["foo", "bar"].iter().for_each(|prefix| own.add(name(prefix)));
    assert_eq!(check(&own, &["x", "fo"]), "1 foo");
    assert_eq!(check(&own, &["barb"]), "0 bar");
    assert_eq!(check(&own, &["foo"]), "0 foo");
    assert_eq!(check(&own, &["fop", "ba!"]), "fine");
}
