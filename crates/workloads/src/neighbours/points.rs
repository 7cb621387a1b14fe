//! Points: where their coordinates come from, and what is computed from them in ordinary memory.

use super::vectors::Vectors;
use crate::random::{Random, splitmix64};

/// Points drawn around a centre, on average.
const PER_CENTRE: u64 = 20;
/// Centres are below this, in each coordinate.
const CENTRES_BELOW: f64 = 224.0;
/// Points are at most this far from their centre, in each coordinate; half as far on average.
const SPREAD: f64 = 32.0;
/// The stream of points that queries look for.
const QUERIES: u64 = 1 << 40;

/// Each slot's first point, and another one for each time that it is replaced.
#[derive(Debug)]
pub struct Points {
    slots: u64,
    dimensions: usize,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Gathered around centres, from this seed.
    Drawn(u64),
    /// One after the other, and from the first one again.
    File(Vectors),
}

impl Points {
    /// `slots` slots of points of this many coordinates, gathered around centres.
    pub fn drawn(slots: u64, dimensions: usize, seed: u64) -> Self {
        Points { slots, dimensions, source: Source::Drawn(seed) }
    }

    /// `slots` slots of points of a file: a window that moves over it.
    pub fn of_file(slots: u64, vectors: Vectors) -> Self {
        Points { slots, dimensions: vectors.dimensions(), source: Source::File(vectors) }
    }

    /// Whether they follow from a seed.
    pub fn are_drawn(&self) -> bool {
        matches!(self.source, Source::Drawn(_))
    }

    /// How many there are at any moment.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Coordinates of each.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The point that is in a slot when it has been replaced `version` times.
    pub fn point(&self, slot: u64, version: u64) -> Vec<f32> {
        match &self.source {
            Source::Drawn(seed) => self.around(*seed, splitmix64(slot ^ splitmix64(version))),
            Source::File(vectors) => {
                let number = version.wrapping_mul(self.slots).wrapping_add(slot);
                vectors.get(number % vectors.len()).to_vec()
            }
        }
    }

    /// A point to look for. It is near some of the others, and none of them.
    pub fn query(&self, random: &mut Random) -> Vec<f32> {
        match &self.source {
            Source::Drawn(seed) => self.around(*seed, splitmix64(random.word() ^ QUERIES)),
            Source::File(vectors) => {
                let mut draw = || vectors.get(random.below(vectors.len())).iter();
                let (near, far) = (draw(), draw());
                near.zip(far).map(|(near, far)| near * 0.9 + far * 0.1).collect()
            }
        }
    }

    fn around(&self, seed: u64, number: u64) -> Vec<f32> {
        let mut random = Random::new(seed, number);
        let centre = random.below(self.slots / PER_CENTRE + 1);
        let mut centres = Random::new(seed ^ QUERIES, centre);
        let coordinate = |_| {
            let off = (random.unit() + random.unit() - 1.0) * SPREAD;
            (SPREAD / 2.0 + centres.unit() * (CENTRES_BELOW - SPREAD / 2.0) + off).max(0.0) as f32
        };
        (0..self.dimensions).map(coordinate).collect()
    }
}

/// The square of the distance of two points.
#[inline]
pub fn distance(a: &[f32], b: &[f32]) -> f32 {
    // Several sums, which the processor adds up at the same time.
    let mut sums = [0.0_f32; 8];
    let (mut left, mut right) = (a.chunks_exact(8), b.chunks_exact(8));
    for (a, b) in left.by_ref().zip(right.by_ref()) {
        for index in 0..8 {
            let off = a[index] - b[index];
            sums[index] += off * off;
        }
    }
    let rest = left.remainder().iter().zip(right.remainder());
    rest.map(|(a, b)| (a - b) * (a - b)).sum::<f32>() + sums.iter().sum::<f32>()
}

/// The nearest points of those that were offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    most: usize,
    found: Vec<(f32, u32)>,
}

impl Nearest {
    /// The nearest `most`.
    pub fn new(most: usize) -> Self {
        Nearest { most, found: Vec::with_capacity(most + 1) }
    }

    /// Offers a point at this distance.
    #[inline]
    pub fn offer(&mut self, distance: f32, slot: u32) {
        if self.is_full() && self.found[self.most - 1].0 <= distance {
            return;
        }
        let place = self.found.partition_point(|own| own.0 <= distance);
        self.found.insert(place, (distance, slot));
        self.found.truncate(self.most);
    }

    /// Whether there are as many as there may be.
    pub fn is_full(&self) -> bool {
        self.found.len() == self.most
    }

    /// Squares of distances with their slots, the nearest first.
    pub fn found(&self) -> &[(f32, u32)] {
        &self.found
    }
}

/// A plane at which points are divided: those below it in this dimension, and those above. Points on it are on either side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plane {
    /// The dimension.
    pub dimension: usize,
    /// Where it is.
    pub at: f32,
    /// The least and the greatest coordinate.
    pub range: (f32, f32),
}

impl Plane {
    /// A plane with points on both sides; none if all are at the same place. Rounded, or of a sample, a middle may leave
    /// nothing below it, or nothing above.
    fn new(dimension: usize, at: f32, (low, high): (f32, f32)) -> Option<Plane> {
        let at = if at <= low || at > high { high } else { at };
        (low < high).then_some(Plane { dimension, at, range: (low, high) })
    }
}

/// How the plane is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The middle of the dimension in which the points are furthest apart: Mount and Arya's.
    Widest,
    /// The mean of one of the five dimensions with the greatest variance, at random: FLANN's.
    Varied,
}

/// Dimensions among which [`Rule::Varied`] chooses.
const AMONG: usize = 5;
/// The maximum number of points from which it estimates variances.
const SAMPLED: usize = 101;

impl Rule {
    /// A plane between these points; none if they are all alike. `random` chooses.
    pub fn plane<'p>(
        self,
        points: impl Iterator<Item = &'p [f32]> + Clone,
        dimensions: usize,
        random: u64,
    ) -> Option<Plane> {
        let varied = match self {
            Rule::Widest => None,
            Rule::Varied => varied(points.clone(), dimensions, random),
        };
        // A variance may be there by rounding alone.
        varied.or_else(|| widest(points, dimensions))
    }
}

fn widest<'p>(points: impl Iterator<Item = &'p [f32]>, dimensions: usize) -> Option<Plane> {
    let mut ranges = vec![(f32::MAX, f32::MIN); dimensions];
    for point in points {
        for ((low, high), own) in ranges.iter_mut().zip(point) {
            (*low, *high) = (low.min(*own), high.max(*own));
        }
    }
    let width = |dimension: &usize| ranges[*dimension].1 - ranges[*dimension].0;
    let dimension = (0..dimensions).max_by(|a, b| width(a).total_cmp(&width(b)))?;
    let (low, high) = ranges[dimension];
    Plane::new(dimension, low / 2.0 + high / 2.0, (low, high))
}

fn varied<'p>(
    points: impl Iterator<Item = &'p [f32]> + Clone,
    dimensions: usize,
    random: u64,
) -> Option<Plane> {
    let (mut sums, mut squares) = (vec![0.0_f64; dimensions], vec![0.0; dimensions]);
    let mut sampled = 0.0;
    for point in points.clone().take(SAMPLED) {
        sampled += 1.0;
        for (index, own) in point.iter().enumerate() {
            sums[index] += f64::from(*own);
            squares[index] += f64::from(*own) * f64::from(*own);
        }
    }
    let mut best: Vec<(f64, usize)> = Vec::with_capacity(AMONG + 1);
    for dimension in 0..dimensions {
        let variance = squares[dimension] / sampled - (sums[dimension] / sampled).powi(2);
        let place = best.partition_point(|other| other.0 >= variance);
        if variance > 0.0 && place < AMONG {
            best.insert(place, (variance, dimension));
            best.truncate(AMONG);
        }
    }
    let (_, dimension) = *best.get((random % best.len().max(1) as u64) as usize)?;
    let each = points.map(|point| point[dimension]);
    let range = each.fold((f32::MAX, f32::MIN), |(low, high), own| (low.min(own), high.max(own)));
    Plane::new(dimension, (sums[dimension] / sampled) as f32, range)
}
