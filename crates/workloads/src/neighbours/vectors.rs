//! Files of vectors, as those of SIFT1M and GIST1M: `.fvecs`.
//!
//! ```text
//! vector  number of coordinates (32 bits, little endian, the same for all), then these (32 bits each, floating point)
//! ```

use super::forest::MOST_DIMENSIONS;
use crate::{Failure, Outcome};
use std::path::Path;

const WORD: usize = 4;
/// What to do about another file.
const FORM: &str = "an fvecs file has for each vector the number of its coordinates, which is the same for all, and then \
                    these, 32 bits each, little endian: choose such a file, or leave it out";

/// Vectors of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Vectors {
    dimensions: usize,
    all: Vec<f32>,
}

impl Vectors {
    /// Those of the file at `path`.
    ///
    /// # Errors
    /// `Parameters` if it cannot be read, or is no such file.
    pub fn read(path: &Path) -> Outcome<Self> {
        let failed = |why: String| Failure::Parameters(format!("{}: {why}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
        Vectors::parse(&bytes).map_err(|why| failed(format!("{why}; {FORM}")))
    }

    /// Those of a file's contents.
    ///
    /// # Errors
    /// Why it is no such file.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let word = |at: usize| -> Option<[u8; WORD]> { bytes.get(at..at + WORD)?.try_into().ok() };
        let Some(first) = word(0) else { return Err("it has no vector".to_owned()) };
        let dimensions = u32::from_le_bytes(first) as usize;
        if !(1..=MOST_DIMENSIONS).contains(&dimensions) {
            return Err(format!(
                "its first vector has {dimensions} coordinates, and may have 1 to {MOST_DIMENSIONS}"
            ));
        }
        let each = (1 + dimensions) * WORD;
        if !bytes.len().is_multiple_of(each) {
            let whole = bytes.len() / each;
            return Err(format!("it ends in the middle of a vector, after {whole} whole ones"));
        }
        let mut all = Vec::with_capacity(bytes.len() / each * dimensions);
        for (number, vector) in bytes.chunks_exact(each).enumerate() {
            let (length, coordinates) = vector.split_at(WORD);
            if length != first {
                return Err(format!(
                    "vector {number} has another number of coordinates than the first"
                ));
            }
            let coordinates = coordinates
                .chunks_exact(WORD)
                .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap_or_default()));
            all.extend(coordinates);
            if !all[all.len() - dimensions..].iter().all(|own| own.is_finite()) {
                return Err(format!("vector {number} has a coordinate that is no number"));
            }
        }
        Ok(Vectors { dimensions, all })
    }

    /// Coordinates of each.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// How many there are: at least one.
    pub fn len(&self) -> u64 {
        (self.all.len() / self.dimensions) as u64
    }

    /// Whether there are none, which is no file of vectors.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// One of them.
    pub fn get(&self, number: u64) -> &[f32] {
        let first = number as usize * self.dimensions;
        &self.all[first..first + self.dimensions]
    }

    /// No coordinate is larger, or smaller than its negative.
    pub fn largest(&self) -> f32 {
        self.all.iter().fold(0.0, |largest, own| own.abs().max(largest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(vectors: &[&[f32]]) -> Vec<u8> {
        let each = vectors.iter().flat_map(|own| {
            let coordinates = own.iter().flat_map(|own| own.to_le_bytes());
            (own.len() as u32).to_le_bytes().into_iter().chain(coordinates)
        });
        each.collect()
    }

    #[test]
    fn vectors_are_those_of_the_file() {
        let vectors =
            Vectors::parse(&file(&[&[1.0, -2.5, 3.0], &[4.0, 0.0, -9.0]])).expect("vectors");
        assert_eq!((vectors.dimensions(), vectors.len(), vectors.largest()), (3, 2, 9.0));
        assert_eq!(vectors.get(1), [4.0, 0.0, -9.0]);
    }

    #[test]
    fn other_files_are_refused() {
        for (bytes, why) in [
            (Vec::new(), "no vector"),
            (vec![1, 0], "no vector"),
            (file(&[&[]]), "its first vector has 0"),
            (vec![0xFF; 64], "its first vector has 4294967295"),
            (file(&[&[1.0, 2.0], &[3.0]]), "in the middle of a vector, after 1"),
            (file(&[&[1.0, 2.0], &[3.0, 4.0]])[..20].to_vec(), "in the middle"),
            (file(&[&[1.0, 2.0, 3.0], &[1.0], &[2.0]]), "vector 1 has another number"),
            (file(&[&[1.0], &[f32::NAN]]), "vector 1 has a coordinate that is no number"),
        ] {
            let refused = Vectors::parse(&bytes).expect_err(why);
            assert!(refused.contains(why), "{refused}, not {why}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("some.txt");
        let missing = Vectors::read(&path).expect_err("no file").to_string();
        assert!(missing.contains("some.txt: No such file"), "{missing}");
        std::fs::write(&path, "no vectors").expect("a file");
        let refused = Vectors::read(&path).expect_err("a text").to_string();
        assert!(
            refused.contains("some.txt") && refused.contains("choose such a file"),
            "{refused}"
        );
    }
}
