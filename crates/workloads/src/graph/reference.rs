//! The programs once more, in ordinary memory and without edges' values: what the right answers are.

use super::heap::{Snapshot, edge_of};
use super::programs::{DAMPING, LEAST_RANK};
use std::collections::HashMap;

/// Sweeps in which ranks come as near to the fixpoint as an f64 tells.
const MOST_SWEEPS: usize = 250;
/// Epochs after which bounds hardly get closer.
const MOST_EPOCHS: u64 = 100;

/// The graph of a snapshot, without values.
#[derive(Debug)]
pub struct Reference<'s> {
    snapshot: &'s Snapshot,
    /// The source of each edge, by place.
    sources: Vec<u32>,
}

impl<'s> Reference<'s> {
    pub(super) fn new(snapshot: &'s Snapshot, sources: Vec<u32>) -> Self {
        Reference { snapshot, sources }
    }

    fn vertices(&self) -> usize {
        self.snapshot.records.len()
    }

    fn sources(&self, vertex: usize) -> impl Iterator<Item = u32> + '_ {
        let record = &self.snapshot.records[vertex];
        let places = &self.snapshot.into[record.first_in as usize..][..record.in_degree as usize];
        places.iter().map(|place| self.sources[*place as usize])
    }

    fn targets(&self, vertex: usize) -> impl Iterator<Item = u32> + '_ {
        let record = &self.snapshot.records[vertex];
        let edges = &self.snapshot.out[record.first_out as usize..][..record.out_degree as usize];
        edges.iter().map(|edge| edge_of(*edge).0)
    }

    fn neighbours(&self, vertex: usize) -> impl Iterator<Item = u32> + '_ {
        self.sources(vertex).chain(self.targets(vertex))
    }

    /// The rank of a vertex when those of the others are these.
    fn rank(&self, vertex: usize, ranks: &[f64]) -> f64 {
        let part = |source: u32| {
            let source = source as usize;
            ranks[source] / f64::from(self.snapshot.records[source].out_degree)
        };
        LEAST_RANK + DAMPING * self.sources(vertex).map(part).sum::<f64>()
    }

    /// The ranks after so many updates, in the order of the vertices, over and over.
    pub(super) fn ranks_after(&self, updates: u64) -> Vec<f64> {
        let mut seen = vec![1.0; self.vertices()];
        for update in 0..updates {
            let vertex = (update % self.vertices() as u64) as usize;
            seen[vertex] = self.rank(vertex, &seen);
        }
        let done = usize::try_from(updates).unwrap_or(usize::MAX).min(self.vertices());
        seen[done..].fill(LEAST_RANK);
        seen
    }

    /// The ranks that no update changes.
    fn final_ranks(&self) -> Vec<f64> {
        let mut ranks = vec![1.0; self.vertices()];
        for _ in 0..MOST_SWEEPS {
            let mut most = 0.0_f64;
            for vertex in 0..ranks.len() {
                let rank = self.rank(vertex, &ranks);
                most = most.max((rank / ranks[vertex] - 1.0).abs());
                ranks[vertex] = rank;
            }
            if most < 1e-12 {
                break;
            }
        }
        ranks
    }

    /// The least and the largest rank that each vertex may have which was updated, in any order, once at least in each
    /// epoch. As ranks only grow with others', bounds of all give closer ones after each epoch.
    pub(super) fn bounds(&self, epochs: u64) -> Vec<(f64, f64)> {
        let ranks = self.final_ranks();
        let least = ranks.iter().copied().fold(1.0, f64::min);
        let most = ranks.iter().copied().fold(1.0, f64::max);
        // All that edges have at first, the parts of 1, is between these.
        let mut lower: Vec<f64> = ranks.iter().map(|rank| rank / most).collect();
        let mut upper: Vec<f64> = ranks.iter().map(|rank| rank / least).collect();
        for _ in 0..epochs.clamp(1, MOST_EPOCHS) {
            let next = |ranks: &[f64]| (0..ranks.len()).map(|own| self.rank(own, ranks)).collect();
            (lower, upper) = (next(&lower), next(&upper));
        }
        lower.into_iter().zip(upper).collect()
    }

    /// The label that most neighbours have, of several the largest; `None` without neighbours.
    pub(super) fn most_frequent(&self, vertex: usize, labels: &[u32]) -> Option<u32> {
        let mut counts = HashMap::new();
        for neighbour in self.neighbours(vertex) {
            *counts.entry(labels[neighbour as usize]).or_insert(0_u32) += 1;
        }
        counts.into_iter().map(|(label, count)| (count, label)).max().map(|(_, label)| label)
    }

    /// Does updates in the order of the vertices, over and over. `new` is a vertex's new label.
    fn labels_after(&self, updates: u64, new: impl Fn(usize, &[u32]) -> u32) -> Vec<u32> {
        let mut labels: Vec<u32> = (0..self.vertices() as u32).collect();
        let mut unchanged = 0;
        for update in 0..updates {
            let vertex = (update % self.vertices() as u64) as usize;
            let label = new(vertex, &labels);
            unchanged = if label == labels[vertex] { unchanged + 1 } else { 0 };
            labels[vertex] = label;
            if unchanged == self.vertices() {
                break;
            }
        }
        labels
    }

    /// The communities after so many updates, in the order of the vertices.
    pub(super) fn communities_after(&self, updates: u64) -> Vec<u32> {
        self.labels_after(updates, |vertex, labels| {
            self.most_frequent(vertex, labels).unwrap_or(labels[vertex])
        })
    }

    /// The components' labels after so many updates, in the order of the vertices. An edge has a label only when one of
    /// its ends was updated, so in the first sweep only those before are seen.
    pub(super) fn components_after(&self, updates: u64) -> Vec<u32> {
        let vertices = self.vertices() as u64;
        let mut labels: Vec<u32> = (0..self.vertices() as u32).collect();
        for vertex in 0..updates.min(vertices) as usize {
            let seen = self.neighbours(vertex).filter(|other| (*other as usize) < vertex);
            labels[vertex] =
                seen.map(|other| labels[other as usize]).fold(labels[vertex], u32::min);
        }
        let mut unchanged = 0;
        for update in vertices..updates {
            let vertex = (update % vertices) as usize;
            let label = self.least_around(vertex, &labels);
            unchanged = if label == labels[vertex] { unchanged + 1 } else { 0 };
            labels[vertex] = label;
            if unchanged == vertices {
                break;
            }
        }
        labels
    }

    fn least_around(&self, vertex: usize, labels: &[u32]) -> u32 {
        let around = self.neighbours(vertex).map(|other| labels[other as usize]);
        around.fold(labels[vertex], u32::min)
    }

    /// The largest label that each vertex may have after so many epochs, in any order of updates.
    pub(super) fn components_bounds(&self, epochs: u64) -> Vec<u32> {
        let mut labels: Vec<u32> = (0..self.vertices() as u32).collect();
        // In the first epoch edges get labels.
        for _ in 1..epochs {
            let next = (0..labels.len()).map(|vertex| self.least_around(vertex, &labels)).collect();
            if labels == next {
                break;
            }
            labels = next;
        }
        labels
    }

    /// The smallest vertex of each vertex's component, by union and find.
    pub(super) fn components(&self) -> Vec<u32> {
        fn root(parents: &mut [u32], mut vertex: u32) -> u32 {
            while parents[vertex as usize] != vertex {
                let parent = parents[vertex as usize];
                parents[vertex as usize] = parents[parent as usize];
                vertex = parent;
            }
            vertex
        }
        let mut parents: Vec<u32> = (0..self.vertices() as u32).collect();
        for target in 0..self.vertices() {
            for source in self.sources(target) {
                let (one, other) = (root(&mut parents, source), root(&mut parents, target as u32));
                parents[one.max(other) as usize] = one.min(other);
            }
        }
        (0..self.vertices() as u32).map(|vertex| root(&mut parents, vertex)).collect()
    }
}
