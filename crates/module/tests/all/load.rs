//! A load that knows what must be there: each worker counts in keys of its own, whose names are in one slot of a cluster.

use crate::client::{Client, ClusterClient, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Performs requests, on one connection or in a cluster: all of them on one node. `None` if it is not known whether they
/// were done.
pub(crate) trait Performs {
    fn perform(&mut self, requests: &[&[&str]]) -> Option<Vec<Value>>;
}

impl Performs for Client {
    fn perform(&mut self, requests: &[&[&str]]) -> Option<Vec<Value>> {
        requests.iter().map(|request| self.ask(request).ok()).collect()
    }
}

impl Performs for ClusterClient {
    fn perform(&mut self, requests: &[&[&str]]) -> Option<Vec<Value>> {
        self.all(requests)
    }
}

/// A worker, and how many of its steps were acknowledged.
pub(crate) struct Worker {
    name: String,
    /// Steps of each kind that must be there.
    least: [i64; 5],
    /// Steps of each kind of which it is not known.
    unknown: [i64; 5],
    turn: usize,
    /// Replicas that must have a step before it counts.
    replicas: usize,
}

const SCRIPT: &str = "redis.call('incr', KEYS[1]); return redis.call('incr', KEYS[2])";

impl Worker {
    pub(crate) fn new(name: usize, replicas: usize) -> Self {
        Worker { name: format!("{{w{name}}}"), least: [0; 5], unknown: [0; 5], turn: 0, replicas }
    }

    fn key(&self, kind: &str) -> String {
        format!("{}:{kind}", self.name)
    }

    /// Steps until it is told to end. Returns how many steps were acknowledged.
    pub(crate) fn work(&mut self, on: &mut impl Performs, ends: &AtomicBool) -> usize {
        let mut steps = 0;
        while !ends.load(Ordering::Relaxed) {
            match self.step(on) {
                true => steps += 1,
                false => thread::sleep(Duration::from_millis(20)),
            }
        }
        steps
    }

    fn step(&mut self, on: &mut impl Performs) -> bool {
        let kind = self.turn % 5;
        self.turn += 1;
        let next = (self.least[kind] + self.unknown[kind]).to_string();
        let keys: Vec<String> = ["counter", "hash", "list", "m1", "m2", "s1", "s2", "gone"]
            .iter()
            .map(|kind| self.key(kind))
            .collect();
        let [counter, hash, list, m1, m2, s1, s2, gone] =
            <[&str; 8]>::try_from(keys.iter().map(String::as_str).collect::<Vec<_>>())
                .expect("eight");
        let requests: Vec<Vec<&str>> = match kind {
            0 => vec![vec!["incr", counter]],
            1 => vec![vec!["hset", hash, &next, "a value that is longer than a word"]],
            2 => vec![vec!["rpush", list, &next]],
            3 => vec![
                vec!["multi"],
                vec!["incr", m1],
                vec!["set", gone, "1"],
                vec!["incr", m2],
                vec!["del", gone],
                vec!["exec"],
            ],
            _ => vec![vec!["eval", SCRIPT, "2", s1, s2]],
        };
        let mut requests: Vec<&[&str]> = requests.iter().map(Vec::as_slice).collect();
        let replicas = self.replicas.to_string();
        let wait = ["wait", &replicas, "2000"];
        if self.replicas > 0 {
            requests.push(&wait);
        }
        self.unknown[kind] += 1;
        let Some(replies) = on.perform(&requests) else { return false };
        let mut replies = replies.as_slice();
        if self.replicas > 0 {
            let (last, rest) = replies.split_last().expect("a reply");
            if !matches!(last, Value::Number(count) if *count >= self.replicas as i64) {
                return false;
            }
            replies = rest;
        }
        if let Some(error) = replies.iter().find(|reply| matches!(reply, Value::Error(_))) {
            panic!("{requests:?}: {error:?}");
        }
        self.unknown[kind] -= 1;
        self.least[kind] += 1;
        true
    }

    /// Checks that all is there that must be, and takes note of what there is.
    pub(crate) fn check(&mut self, on: &mut impl Performs) {
        let ask = |on: &mut dyn FnMut(&[&str]) -> Value, request: [&str; 2]| on(&request);
        let mut perform = |request: &[&str]| {
            let request = [request];
            let replies = on.perform(&request).expect("a reply");
            replies.into_iter().next_back().expect("a reply")
        };
        let names: Vec<String> =
            ["counter", "m1", "m2", "s1", "s2"].iter().map(|kind| self.key(kind)).collect();
        let [counter, m1, m2, s1, s2] =
            [0, 1, 2, 3, 4].map(|at: usize| ask(&mut perform, ["get", &names[at]]).number());
        assert_eq!((m1, s1), (m2, s2), "half of an EXEC, or of a script, in {}", self.name);
        let (hash, list, gone) = (self.key("hash"), self.key("list"), self.key("gone"));
        let fields = ask(&mut perform, ["hlen", &hash]).number();
        assert_eq!(ask(&mut perform, ["exists", &gone]), Value::Number(0));
        let elements: Vec<i64> =
            perform(&["lrange", &list, "0", "-1"]).list().into_iter().map(Value::number).collect();
        let is_sorted = elements.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(is_sorted, "elements of {list} are there twice, or change places");
        let found = [counter, fields, elements.len() as i64, m1, s1];
        for (kind, found) in found.into_iter().enumerate() {
            let (least, most) = (self.least[kind], self.least[kind] + self.unknown[kind]);
            assert!(
                (least..=most).contains(&found),
                "{} of kind {kind}: {found} are there, {least} were acknowledged, {most} were sent",
                self.name
            );
            (self.least[kind], self.unknown[kind]) = (found, 0);
        }
        self.begin_anew(&mut perform);
    }

    /// The hash and the list begin anew, so that numbers of steps that were lost are not used twice.
    fn begin_anew(&mut self, perform: &mut impl FnMut(&[&str]) -> Value) {
        let (hash, list) = (self.key("hash"), self.key("list"));
        perform(&["del", &hash, &list]);
        (self.least[1], self.least[2]) = (0, 0);
    }

    /// All begins anew: a failover may have lost some of it.
    pub(crate) fn forget(&mut self, on: &mut impl Performs) {
        for kind in ["counter", "hash", "list", "m1", "m2", "s1", "s2", "gone"] {
            on.perform(&[&["del", &self.key(kind)]]).expect("a reply");
        }
        (self.least, self.unknown) = ([0; 5], [0; 5]);
    }

    /// What a node has of it: to compare nodes.
    pub(crate) fn seen(&self, on: &mut impl Performs) -> Vec<Value> {
        ["counter", "m1", "m2", "s1", "s2"]
            .iter()
            .filter_map(|kind| on.perform(&[&["get", &self.key(kind)]]))
            .flatten()
            .collect()
    }
}
