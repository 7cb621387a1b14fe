//! The transactions that clients sent and their acknowledgements, each with the length of the trace at that time; and
//! what a power cut must leave of them.
//!
//! What always holds: the position noted for an acknowledgement was read after it came, the one for a request before it
//! was sent. A power cut at or after the former must leave the transaction; one before the latter cannot.

use crate::work::{CONNECTIONS, Step};
use serde::{Deserialize, Serialize};

/// One transaction that was sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// The life in which it was sent, and its number.
    pub life: u32,
    /// The connection's transaction number; one that was lost with its life is used again.
    pub number: u64,
    /// The trace's length before it was sent.
    pub sent: u64,
    /// The trace's length when it was known to be durable.
    pub answered: Option<u64>,
    /// Its place among all connections' transactions, according to the reply.
    pub place: Option<u64>,
    /// The trace's length when it was known not to have been executed.
    pub void: Option<u64>,
}

/// One life of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Life {
    /// The trace's length when it began.
    pub begun: u64,
    /// The trace's length when it was ready for requests.
    pub ready: Option<u64>,
    /// What ended it.
    pub end: String,
}

/// All lives of one pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct History {
    /// The engine.
    pub engine: String,
    /// The root of everything random.
    pub seed: u64,
    /// The lives, in order.
    pub lives: Vec<Life>,
    /// What each connection sent.
    pub connections: [Vec<Attempt>; CONNECTIONS],
}

/// Which transactions of one connection may be the last one after a power cut, by their places in its list; `None`
/// stands for no transaction at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The earliest.
    pub least: Option<usize>,
    /// The other possible ones.
    pub others: Vec<usize>,
}

impl History {
    /// What may be the last transaction of `connection` after a power cut at `position`.
    pub fn allowed(&self, connection: usize, position: u64) -> Allowed {
        let attempts = &self.connections[connection];
        let by = |moment: Option<u64>| moment.is_some_and(|moment| moment <= position);
        let least = attempts.iter().rposition(|attempt| by(attempt.answered));
        let from = least.map_or(0, |least| least + 1);
        let others = (from..attempts.len())
            .filter(|&index| attempts[index].sent <= position && !by(attempts[index].void));
        Allowed { least, others: others.collect() }
    }

    /// The transaction at `index` of a connection's list, and all of that connection that must have been executed
    /// before it: the newest of each number.
    pub fn done(&self, connection: usize, index: usize) -> Vec<Step> {
        let attempts = &self.connections[connection];
        let mut steps: Vec<Step> = Vec::new();
        for attempt in attempts[..=index].iter().rev() {
            // Going backwards, a number that was used again later was not executed.
            if steps.last().is_none_or(|later| attempt.number < later.number) {
                let Attempt { life, number, .. } = *attempt;
                steps.push(Step { connection, life, number });
            }
        }
        steps.reverse();
        steps
    }

    /// The life at `position`, counted from 0, and whether it was not ready yet.
    pub fn life_at(&self, position: u64) -> (usize, bool) {
        let life = self.lives.iter().rposition(|life| life.begun < position).unwrap_or(0);
        let recovering = self
            .lives
            .get(life)
            .is_some_and(|life| life.ready.is_none_or(|ready| position < ready));
        (life, recovering)
    }

    /// Transactions that were acknowledged, or found executed later.
    pub fn acknowledged(&self) -> u64 {
        let attempts = self.connections.iter().flatten();
        attempts.filter(|attempt| attempt.answered.is_some()).count() as u64
    }

    /// Whether the pool was known to exist at `position`.
    pub fn is_made(&self, position: u64) -> bool {
        let ready = self.lives.first().and_then(|life| life.ready);
        ready.is_some_and(|ready| ready <= position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(life: u32, number: u64, sent: u64, answered: Option<u64>) -> Attempt {
        Attempt { life, number, sent, answered, place: None, void: None }
    }

    #[test]
    fn a_cut_leaves_what_was_answered_and_may_leave_what_was_sent() {
        let mut history = History::default();
        let void = Attempt { void: Some(60), ..attempt(0, 2, 30, None) };
        history.connections[0] = vec![
            attempt(0, 1, 10, Some(20)),
            void,
            attempt(1, 2, 70, Some(80)),
            attempt(1, 3, 90, None),
        ];
        let at = |position| {
            let Allowed { least, others } = history.allowed(0, position);
            (least, others)
        };
        assert_eq!(at(5), (None, vec![]));
        assert_eq!(at(10), (None, vec![0]));
        assert_eq!(at(20), (Some(0), vec![]));
        assert_eq!(at(30), (Some(0), vec![1]));
        assert_eq!(at(60), (Some(0), vec![]));
        assert_eq!(at(75), (Some(0), vec![2]));
        assert_eq!(at(100), (Some(2), vec![3]));
        let stamps =
            |index| history.done(0, index).into_iter().map(Step::stamp).collect::<Vec<_>>();
        assert_eq!(stamps(1), ["0.1", "0.2"]);
        assert_eq!(stamps(3), ["0.1", "1.2", "1.3"]);
    }
}
