//! The same random operations on [`Records`] and on the standard library's maps: both must find
//! the same.

use super::Records;
use crate::Session;
use crate::random::Random;
use perdura::{Error, Result, Tx};
use std::collections::BTreeMap;

/// Keys that are hashes at first draw, and keys that are sorted sets; a few are either.
const HASHES: [&str; 3] = ["h", "user6284781860667377211", "a key that is longer than others"];
const SORTED: [&str; 3] = ["z", "_indices", "a sorted set with a long name"];
const EITHER: [&str; 2] = ["e", ""];
/// Scores, some of them hard to order.
const SCORES: [f64; 8] =
    [f64::NEG_INFINITY, -594_971_599.0, -1.5, -0.0, 0.0, 0.5, 2_147_483_647.0, f64::INFINITY];

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

enum Model {
    Hash(Map),
    Sorted(BTreeMap<Vec<u8>, f64>),
}

/// One operation with all its inputs: a transaction's body may run more than once.
#[derive(Debug)]
enum Step {
    SetFields(Vec<(Vec<u8>, Vec<u8>)>),
    Field(Vec<u8>),
    Fields,
    Remove,
    Add(f64, Vec<u8>),
    Take(Vec<u8>),
    Range(f64, usize),
    Members,
}

/// The result of an operation.
#[derive(Debug, PartialEq)]
enum StepResult {
    Nothing,
    Flag(bool),
    Value(Option<Vec<u8>>),
    Pairs(Option<Map>),
    Ranked(Vec<(f64, Vec<u8>)>),
    Count(u64),
    Refused,
}

/// Does `steps` random operations, a transaction each, on both.
///
/// # Panics
/// Where they differ; the message has the seed.
pub fn compare<S: Session>(records: &impl Records, session: &mut S, seed: u64, steps: u64) {
    let (mut random, mut model) = (Random::new(seed, 0), BTreeMap::new());
    for number in 0..steps {
        let (key, step) = draw(&mut random);
        let told = session.transaction(|tx| refusals(apply(records, tx, key.as_bytes(), &step)));
        let told = told.expect("a transaction");
        let expected = apply_to_model(&mut model, key, &step);
        assert_eq!(told, expected, "seed {seed}, step {number}: {step:?} of '{key}'");
    }
    empty(records, session, &model);
}

/// Removes every key, and checks that nothing is left of it.
fn empty<S: Session>(records: &impl Records, session: &mut S, model: &BTreeMap<&str, Model>) {
    for key in HASHES.iter().chain(&SORTED).chain(&EITHER) {
        let key_bytes = key.as_bytes();
        let removed = session.transaction(|tx| records.remove(tx, key_bytes));
        assert_eq!(removed.expect("a removal"), model.contains_key(key), "'{key}'");
        let found = session.read(|tx| records.fields(tx, key_bytes, &mut |_, _| {}));
        assert!(!found.expect("a look"), "'{key}' is still there");
    }
}

/// An operation that is refused must not have done anything; the transaction commits.
fn refusals(told: Result<StepResult>) -> Result<StepResult> {
    match told {
        Err(Error::Invalid(_)) => Ok(StepResult::Refused),
        other => other,
    }
}

fn bytes(random: &mut Random, prefix: &str, choices: u64, longest: u64) -> Vec<u8> {
    let name = format!("{prefix}{}", random.below(choices));
    let mut bytes = name.into_bytes();
    // Some are short enough to lie inside of a map, others not.
    if random.below(4) == 0 {
        bytes.resize(bytes.len().max(random.below(longest) as usize), b'.');
    }
    bytes
}

fn draw(random: &mut Random) -> (&'static str, Step) {
    let pick = |random: &mut Random, from: &[&'static str]| {
        let all: Vec<_> = from.iter().chain(&EITHER).copied().collect();
        all[random.below(all.len() as u64) as usize]
    };
    let score = |random: &mut Random| match random.below(20) {
        0 => f64::NAN,
        drawn => SCORES[drawn as usize % SCORES.len()],
    };
    match random.below(16) {
        0..4 => {
            let pairs = 0..random.below(12);
            let pair = |_| (bytes(random, "field", 10, 40), bytes(random, "v", 1 << 40, 900));
            let pairs = pairs.map(pair).collect();
            (pick(random, &HASHES), Step::SetFields(pairs))
        }
        4..6 => (pick(random, &HASHES), Step::Field(bytes(random, "field", 10, 40))),
        6..8 => (pick(random, &HASHES), Step::Fields),
        8 if random.below(4) == 0 => {
            let all = if random.below(2) == 0 { &HASHES } else { &SORTED };
            (pick(random, all), Step::Remove)
        }
        8..12 => {
            (pick(random, &SORTED), Step::Add(score(random), bytes(random, "member", 120, 40)))
        }
        12..13 => (pick(random, &SORTED), Step::Take(bytes(random, "member", 120, 40))),
        13..15 => {
            // No Redis has a range from NaN.
            let from = SCORES[random.below(SCORES.len() as u64) as usize];
            (pick(random, &SORTED), Step::Range(from, 1 + random.below(50) as usize))
        }
        _ => (pick(random, &SORTED), Step::Members),
    }
}

fn apply(records: &impl Records, tx: &mut dyn Tx, key: &[u8], step: &Step) -> Result<StepResult> {
    Ok(match step {
        Step::SetFields(pairs) => {
            let pairs: Vec<_> = pairs.iter().map(|(f, v)| (f.as_slice(), v.as_slice())).collect();
            records.set_fields(tx, key, &pairs)?;
            StepResult::Nothing
        }
        Step::Field(field) => StepResult::Value(records.field(tx, key, field)?),
        Step::Fields => {
            let mut pairs = Map::new();
            let there = records.fields(tx, key, &mut |field, value| {
                assert!(pairs.insert(field.to_vec(), value.to_vec()).is_none(), "a field twice");
            })?;
            StepResult::Pairs(there.then_some(pairs))
        }
        Step::Remove => StepResult::Flag(records.remove(tx, key)?),
        Step::Add(score, member) => StepResult::Flag(records.add(tx, key, *score, member)?),
        Step::Take(member) => StepResult::Flag(records.take(tx, key, member)?),
        Step::Range(from, limit) => {
            let mut ranked = Vec::new();
            records.range(tx, key, *from, &mut |score, member| {
                ranked.push((score, member.to_vec()));
                ranked.len() < *limit
            })?;
            StepResult::Ranked(ranked)
        }
        Step::Members => StepResult::Count(records.members(tx, key)?),
    })
}

fn apply_to_model(
    model: &mut BTreeMap<&'static str, Model>,
    key: &'static str,
    step: &Step,
) -> StepResult {
    match step {
        Step::Remove => StepResult::Flag(model.remove(key).is_some()),
        Step::SetFields(_) | Step::Field(_) | Step::Fields => apply_to_hash(model, key, step),
        Step::Add(..) | Step::Take(_) | Step::Range(..) | Step::Members => {
            apply_to_sorted(model, key, step)
        }
    }
}

fn apply_to_hash(
    model: &mut BTreeMap<&'static str, Model>,
    key: &'static str,
    step: &Step,
) -> StepResult {
    let hash = match model.get_mut(key) {
        Some(Model::Sorted(_)) => return StepResult::Refused,
        Some(Model::Hash(hash)) => Some(hash),
        None => None,
    };
    match step {
        Step::SetFields(pairs) => {
            match hash {
                Some(hash) => hash.extend(pairs.iter().cloned()),
                None if pairs.is_empty() => {}
                None => {
                    model.insert(key, Model::Hash(pairs.iter().cloned().collect()));
                }
            }
            StepResult::Nothing
        }
        Step::Field(field) => StepResult::Value(hash.and_then(|hash| hash.get(field).cloned())),
        _ => StepResult::Pairs(hash.cloned()),
    }
}

fn apply_to_sorted(
    model: &mut BTreeMap<&'static str, Model>,
    key: &'static str,
    step: &Step,
) -> StepResult {
    if let Step::Add(score, _) = step
        && score.is_nan()
    {
        return StepResult::Refused;
    }
    let mut nothing = BTreeMap::new();
    let (set, is_there) = match model.get_mut(key) {
        Some(Model::Hash(_)) => return StepResult::Refused,
        Some(Model::Sorted(set)) => (set, true),
        None => (&mut nothing, false),
    };
    let told = match step {
        Step::Add(score, member) => StepResult::Flag(set.insert(member.clone(), *score).is_none()),
        Step::Take(member) => StepResult::Flag(set.remove(member).is_some()),
        Step::Range(from, limit) => {
            let mut ranked: Vec<_> = set
                .iter()
                .map(|(member, score)| (*score, member.clone()))
                .filter(|(score, _)| score >= from)
                .collect();
            ranked.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
            ranked.truncate(*limit);
            StepResult::Ranked(ranked)
        }
        _ => StepResult::Count(set.len() as u64),
    };
    let is_empty = set.is_empty();
    if is_empty {
        model.remove(key);
    } else if !is_there {
        model.insert(key, Model::Sorted(nothing));
    }
    told
}
