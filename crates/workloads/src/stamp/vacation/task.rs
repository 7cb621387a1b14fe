//! Clients' requests, drawn outside of transactions.

use super::Parameters;
use crate::random::Random;

/// The kinds of resources; the number is its table's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Type {
    Car,
    Flight,
    Room,
}

impl Type {
    pub(super) const ALL: [Type; 3] = [Type::Car, Type::Flight, Type::Room];
}

/// A row of a table, by its id.
pub(super) type Place = (Type, u64);

/// One client's transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Reserves the dearest of these rows, of each type, for a customer.
    Reserve { customer: u64, rows: Vec<Place> },
    /// Cancels all reservations of a customer and deletes it.
    Delete { customer: u64 },
    /// Adds 100 to each row, at a new price, or takes 100 away where there is no price.
    Update { rows: Vec<(Place, Option<u64>)> },
}

impl Task {
    /// Random numbers that were drawn for it.
    pub(super) fn drawn(&self) -> u64 {
        match self {
            // The action and the customer; the number of rows, and for each its type and its id,
            Task::Delete { .. } => 2,
            Task::Reserve { rows, .. } => 3 + 2 * rows.len() as u64,
            // and whether there is a price, which is another one.
            Task::Update { rows } => {
                2 + rows.iter().map(|(_, price)| 3 + u64::from(price.is_some())).sum::<u64>()
            }
        }
    }

    /// The kind of operation.
    pub(super) const fn kind(&self) -> usize {
        match self {
            Task::Reserve { .. } => 0,
            Task::Delete { .. } => 1,
            Task::Update { .. } => 2,
        }
    }
}

/// A price as it is loaded, or set later.
pub(super) fn price(random: &mut Random) -> u64 {
    50 + 10 * random.below(5)
}

/// Draws tasks.
pub(super) struct Draw {
    queries: u64,
    /// Ids are drawn up to this one.
    range: u64,
    user_percent: u64,
}

impl Draw {
    pub(super) const fn new(parameters: &Parameters) -> Self {
        let Parameters { queries, range_percent, user_percent, rows, .. } = *parameters;
        Draw { queries, range: rows * range_percent / 100, user_percent }
    }

    fn id(&self, random: &mut Random) -> u64 {
        random.between(1, self.range)
    }

    fn place(&self, random: &mut Random) -> Place {
        (Type::ALL[random.below(3) as usize], self.id(random))
    }

    pub(super) fn task(&self, random: &mut Random) -> Task {
        let action = random.below(100);
        if action >= self.user_percent && action % 2 == 1 {
            return Task::Delete { customer: self.id(random) };
        }
        let queries = 0..random.between(1, self.queries);
        if action < self.user_percent {
            let customer = self.id(random);
            return Task::Reserve { customer, rows: queries.map(|_| self.place(random)).collect() };
        }
        let mut change = || {
            let place = self.place(random);
            (place, random.chance(0.5).then(|| price(random)))
        };
        Task::Update { rows: queries.map(|_| change()).collect() }
    }
}
