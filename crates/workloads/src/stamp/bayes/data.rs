//! Records of variables that are true or false, drawn from a network of dependencies, and how likely they are.

use super::Parameters;
use crate::random::Random;

/// Likelihoods are whole numbers, multiples of 2^-20, so that sums do not depend on their order.
const ONE: f64 = (1u64 << 20) as f64;

/// Records: a bit for each variable.
#[derive(Debug)]
pub(super) struct Data {
    records: Vec<u64>,
    variables: u64,
    /// The cost of an edge.
    pub(super) penalty: i64,
}

/// The numbers of the bits that are set.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = u64::from(set.trailing_zeros());
        set &= set.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

impl Data {
    pub(super) fn drawn(parameters: &Parameters, seed: u64) -> Self {
        let Parameters { variables, records, most_parents, parent_percent, insert_penalty, .. } =
            *parameters;
        let mut random = Random::new(seed, 1 << 33);
        // Parents come before their children in this order.
        let mut order: Vec<u64> = (0..variables).collect();
        random.shuffle(&mut order);
        let network: Vec<(u64, Vec<u64>, Vec<f64>)> = (0..variables as usize)
            .map(|place| {
                let mut parents = Vec::new();
                for _ in 0..most_parents {
                    let other = random.below(variables) as usize;
                    if random.below(100) < parent_percent
                        && other < place
                        && !parents.contains(&order[other])
                    {
                        parents.push(order[other]);
                    }
                }
                let chances = (0..1u64 << parents.len()).map(|_| random.unit()).collect();
                (order[place], parents, chances)
            })
            .collect();
        let record = |random: &mut Random| {
            network.iter().fold(0, |record, (variable, parents, chances)| {
                let given = gather(record, parents) as usize;
                record | u64::from(random.chance(chances[given])) << variable
            })
        };
        let records: Vec<u64> = (0..records).map(|_| record(&mut random)).collect();
        let penalty = 0.5 * (records.len() as f64).ln() * insert_penalty as f64;
        Data { records, variables, penalty: (penalty * ONE).round() as i64 }
    }

    pub(super) fn variables(&self) -> u64 {
        self.variables
    }

    /// How likely all records' values of a variable are, given those of its parents: the logarithm.
    pub(super) fn likelihood(&self, variable: u64, parents: u64) -> i64 {
        let parents: Vec<u64> = bits(parents).collect();
        let mut counts = vec![[0u32; 2]; 1 << parents.len()];
        for record in &self.records {
            counts[gather(*record, &parents) as usize][(record >> variable & 1) as usize] += 1;
        }
        let likely = |[no, yes]: &[u32; 2]| {
            let both = f64::from(no + yes);
            let one = |count: f64| if count > 0.0 { count * (count / both).ln() } else { 0.0 };
            one(f64::from(*no)) + one(f64::from(*yes))
        };
        (counts.iter().map(likely).sum::<f64>() * ONE).round() as i64
    }
}

/// The bits of these variables, side by side.
fn gather(record: u64, variables: &[u64]) -> u64 {
    (0..).zip(variables).map(|(place, variable)| (record >> variable & 1) << place).sum()
}
