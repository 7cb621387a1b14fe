//! TATP on a few subscribers: a transaction that changes two tables, and others that are rolled back.
//!
//! The model is the same tables in ordinary memory, with transactions of their own.

use super::{Listed, Structure};
use crate::Subject;
use perdura::{Result, Tx};
use perdura_memory::random::SplitMix64;
use perdura_workloads::random::Random;
use perdura_workloads::tatp::{
    Contents, Desk, Distribution, Input, Kind, Population, STARTS, TYPES, Tables, number,
};

const SUBSCRIBERS: u64 = 5;
const SEED: u64 = 12;
/// The kinds, those that write more often than in TATP's mix.
const KINDS: [(Kind, u64); 7] = [
    (Kind::GetSubscriberData, 1),
    (Kind::GetNewDestination, 1),
    (Kind::GetAccessData, 1),
    (Kind::UpdateSubscriberData, 4),
    (Kind::UpdateLocation, 3),
    (Kind::InsertCallForwarding, 6),
    (Kind::DeleteCallForwarding, 4),
];
const SHARES: u64 = 20;

/// The tables.
pub struct Tatp {
    people: Population,
    desk: Desk,
}

impl Default for Tatp {
    fn default() -> Self {
        let people = Population::new(SUBSCRIBERS, SEED).expect("subscribers");
        Tatp { people, desk: Desk::new(SUBSCRIBERS, Distribution::Uniform) }
    }
}

impl Listed for Tatp {
    const ROW: Structure = Structure { name: "tatp", line: "TATP, on five subscribers" };
}

impl Subject for Tatp {
    type Op = Input;
    type Model = Contents;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let tables = Tables::create(tx)?;
        (1..=SUBSCRIBERS).try_for_each(|id| tables.load(tx, &self.people, id))
    }

    fn prepared(&self) -> Contents {
        let mut all = Contents::default();
        for id in 1..=SUBSCRIBERS {
            all.subscribers.insert(id, self.people.subscriber(id));
            all.numbers.insert(number(id), id);
            let home = self.people.home(id);
            for of_type in 1..=TYPES {
                let index = usize::from(of_type) - 1;
                all.access.extend(home.access[index].map(|row| ((id, of_type), row)));
                all.facilities.extend(home.facilities[index].map(|row| ((id, of_type), row)));
                for (start, row) in STARTS.into_iter().zip(home.forwardings[index]) {
                    all.forwardings.extend(row.map(|row| ((id, of_type, start), row)));
                }
            }
        }
        all
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> Input {
        let mut left = random.below(SHARES);
        let mut kind = Kind::DeleteCallForwarding;
        for (next, share) in KINDS {
            if left < share {
                kind = next;
                break;
            }
            left -= share;
        }
        self.desk.draw_of(&mut Random::new(random.next(), 0), kind)
    }

    fn apply(&self, tx: &mut dyn Tx, input: &Input) -> Result<()> {
        let tables = Tables::find(tx)?.expect("it was prepared");
        tables.run(tx, input).map(drop)
    }

    fn step(&self, model: &mut Contents, input: &Input) -> bool {
        let Input { id, of_type, start, .. } = *input;
        let key = (id, of_type, start);
        match input.kind {
            Kind::GetSubscriberData | Kind::GetNewDestination | Kind::GetAccessData => true,
            Kind::UpdateLocation => {
                let row = model.subscribers.get_mut(&id).expect("a subscriber");
                row[12..16].copy_from_slice(&input.location.to_le_bytes());
                true
            }
            Kind::UpdateSubscriberData => {
                let Some(facility) = model.facilities.get_mut(&(id, of_type)) else { return false };
                facility[2] = input.data;
                model.subscribers.get_mut(&id).expect("a subscriber")[32] = input.bit;
                true
            }
            Kind::InsertCallForwarding => {
                let is_possible = model.facilities.contains_key(&(id, of_type))
                    && !model.forwardings.contains_key(&key);
                if is_possible {
                    let mut row = [input.end; 16];
                    row[1..].copy_from_slice(&input.to);
                    model.forwardings.insert(key, row);
                }
                is_possible
            }
            Kind::DeleteCallForwarding => model.forwardings.remove(&key).is_some(),
        }
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Contents>> {
        match Tables::find(tx)? {
            Some(tables) => tables.contents(tx).map(Some),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::testing::TestHeap;
    use perdura::{Access, Error};

    /// Every operation does to the heap what it does to the model, and aborts where the model says so.
    #[test]
    fn the_model_is_that_of_the_transactions() {
        let (subject, mut heap) = (Tatp::default(), TestHeap::new());
        assert!(subject.read(&mut heap).expect("an empty heap").is_none());
        subject.prepare(&mut heap).expect("it is made");
        heap.commit();
        let mut model = subject.prepared();
        let (mut random, mut aborted) = (SplitMix64::new(1), 0);
        for _ in 0..2_000 {
            assert_eq!(subject.read(&mut heap).expect("tables").as_ref(), Some(&model));
            let op = subject.draw(&mut random, 0);
            let commits = subject.step(&mut model, &op);
            match subject.apply(&mut heap, &op) {
                Ok(()) if commits => heap.commit(),
                Err(Error::Aborted(_)) if !commits => {
                    aborted += 1;
                    heap.abort();
                }
                other => panic!("{op:?}: {other:?}"),
            }
        }
        assert!((500..1_500).contains(&aborted), "{aborted}");
    }

    /// Half of a transaction on two tables is not what the model has.
    #[test]
    fn notices_half_a_transaction() {
        let (subject, mut heap) = (Tatp::default(), TestHeap::new());
        subject.prepare(&mut heap).expect("it is made");
        let mut model = subject.prepared();
        let mut random = SplitMix64::new(2);
        let op = loop {
            let op = subject.draw(&mut random, 0);
            let (before, is_update) = (model.clone(), op.kind == Kind::UpdateSubscriberData);
            let is_half = |model: &Contents| {
                model.subscribers != before.subscribers && model.facilities != before.facilities
            };
            if is_update && subject.step(&mut model, &op) && is_half(&model) {
                break op;
            }
            model = before;
        };
        subject.apply(&mut heap, &op).expect("a commit");
        assert_eq!(subject.read(&mut heap).expect("tables"), Some(model.clone()));
        let root = heap.root("tatp.subscriber").expect("a read").expect("the table");
        let table = perdura::collections::HashMap::<u64, [u8; 64], false>::new(root.at);
        let place = table.slot(&mut heap, op.id).expect("a read").expect("a row").at() + 32;
        heap.write_bytes(place, &[op.bit ^ 1]).expect("a write");
        assert_ne!(subject.read(&mut heap).expect("tables"), Some(model));
    }
}
