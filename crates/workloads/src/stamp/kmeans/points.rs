//! Points around centres, as multiples of 2^-20.

use crate::random::Random;

/// A coordinate of 1.
const ONE: f64 = (1u64 << 20) as f64;

/// Points, each a row of coordinates.
#[derive(Debug)]
pub(super) struct Points {
    coordinates: Vec<i64>,
    dimensions: usize,
}

impl Points {
    /// Draws points around `centres` centres, which are anywhere in the unit cube.
    pub(super) fn drawn(points: u64, dimensions: u64, centres: u64, seed: u64) -> Self {
        let mut random = Random::new(seed, 1 << 33);
        let spread = (1.0 / centres as f64).powi(3);
        let dimensions = dimensions as usize;
        let centres: Vec<f64> = (0..centres as usize * dimensions).map(|_| random.unit()).collect();
        let count = (centres.len() / dimensions) as u64;
        let mut coordinates = Vec::with_capacity(points as usize * dimensions);
        for _ in 0..points {
            let centre = random.below(count) as usize * dimensions;
            for middle in &centres[centre..centre + dimensions] {
                let value = middle + spread * normal(&mut random);
                coordinates.push((value * ONE).round() as i64);
            }
        }
        Points { coordinates, dimensions }
    }

    pub(super) fn len(&self) -> u64 {
        (self.coordinates.len() / self.dimensions) as u64
    }

    pub(super) fn dimensions(&self) -> usize {
        self.dimensions
    }

    pub(super) fn get(&self, index: u64) -> &[i64] {
        &self.coordinates[index as usize * self.dimensions..][..self.dimensions]
    }

    /// The coordinates of the first `count` points.
    pub(super) fn first(&self, count: usize) -> &[i64] {
        &self.coordinates[..count * self.dimensions]
    }
}

/// Nearly normally distributed, and the same everywhere: a sum needs no logarithm.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

/// The number of the nearest centre; the first of those that are as near.
pub(super) fn nearest(point: &[i64], centres: &[i64]) -> usize {
    let distance = |centre: &[i64]| -> u64 {
        point.iter().zip(centre).map(|(a, b)| a.abs_diff(*b).pow(2)).sum()
    };
    let distances = centres.chunks_exact(point.len()).map(distance);
    distances.enumerate().min_by_key(|(_, distance)| *distance).map_or(0, |(index, _)| index)
}
