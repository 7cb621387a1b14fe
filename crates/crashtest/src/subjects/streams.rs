//! The mixes of streams on a few kilobytes: an operation of a program is there whole or not at all, with its count.
//!
//! Any core plays any program; so two of them may play the same one, each its next operation.

use super::{Listed, Structure};
use crate::Subject;
use perdura::collections::Visit;
use perdura::{Result, Root, Tx};
use perdura_memory::random::SplitMix64;
use perdura_workloads::check_root;
use perdura_workloads::streams::{FIRST, Mix, PROGRAMS, SECOND, Touch};

const BYTES: u64 = 6 << 10;
const ACCESSES: u64 = 12;

/// A mix: the first, or the second.
#[derive(Debug)]
pub struct SpecMix<const WHICH: usize>(Mix);

/// The mix of leslie3d, sjeng, sphinx3 and wrf.
pub type SpecMix1 = SpecMix<1>;

/// The mix of GemsFDTD, lbm, milc and soplex.
pub type SpecMix2 = SpecMix<2>;

/// Of each program: operations done, and the words of each array.
type Contents = Vec<(u64, Vec<Vec<u64>>)>;

impl<const WHICH: usize> Default for SpecMix<WHICH> {
    fn default() -> Self {
        let programs = if WHICH == 1 { &FIRST } else { &SECOND };
        let mix = Mix::new(Self::ROW.name, programs, BYTES, ACCESSES, 1, 1);
        SpecMix(mix.expect("valid parameters"))
    }
}

impl<const WHICH: usize> Listed for SpecMix<WHICH> {
    const ROW: Structure = if WHICH == 1 {
        Structure { name: "spec-mix-1", line: "four programs' streams, of the first mix" }
    } else {
        Structure { name: "spec-mix-2", line: "four programs' streams, of the second mix" }
    };
}

impl<const WHICH: usize> Subject for SpecMix<WHICH> {
    /// Which program does its next operation.
    type Op = usize;
    type Model = Contents;

    fn name(&self) -> &str {
        Self::ROW.name
    }

    fn prepare(&self, tx: &mut dyn Tx) -> Result<()> {
        let programs = self.0.courses().iter().map(|course| self.0.create_program(tx, course));
        let programs: Vec<u64> = programs.collect::<Result<_>>()?;
        self.0.create_root(tx, &programs)
    }

    fn prepared(&self) -> Contents {
        let of = self.0.courses().iter().map(|course| {
            let arrays = course.arrays().iter().enumerate();
            (0, arrays.map(|(array, words)| vec![course.loaded(array); *words as usize]).collect())
        });
        of.collect()
    }

    fn draw(&self, random: &mut SplitMix64, _: usize) -> usize {
        random.below(PROGRAMS as u64) as usize
    }

    fn apply(&self, tx: &mut dyn Tx, program: &usize) -> Result<()> {
        let places = self.0.find(tx)?.expect("it was prepared");
        match self.0.play(tx, &self.0.courses()[*program], &places[*program])? {
            None => Ok(()),
            Some(at) => panic!("a word at {at:#x} is not the program's own"),
        }
    }

    fn step(&self, contents: &mut Contents, program: &usize) -> bool {
        let (course, (done, arrays)) = (&self.0.courses()[*program], &mut contents[*program]);
        for access in *done * ACCESSES..(*done + 1) * ACCESSES {
            let visit = course.visit(access);
            if visit.touch != Touch::Read {
                arrays[visit.array][visit.word as usize] = visit.value;
            }
        }
        *done += 1;
        true
    }

    fn aborts(&self) -> bool {
        false
    }

    fn read(&self, tx: &mut dyn Tx) -> Result<Option<Contents>> {
        let Some(places) = self.0.find(tx)? else { return Ok(None) };
        let mut contents = Contents::new();
        for (course, places) in self.0.courses().iter().zip(&places) {
            let arrays =
                (0..course.arrays().len()).map(|array| Mix::words(tx, course, places, array, 0));
            let arrays = arrays.collect::<Result<_>>()?;
            contents.push((Mix::done(tx, places)?, arrays));
        }
        Ok(Some(contents))
    }

    fn visit(&self, tx: &mut dyn Tx, root: Root, visit: &mut Visit<'_>) -> Result<bool> {
        check_root(tx, root, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura::testing::TestHeap;

    fn the_model_is_that_of_the_operations<const WHICH: usize>() {
        let (subject, mut heap) = (SpecMix::<WHICH>::default(), TestHeap::new());
        assert!(subject.read(&mut heap).expect("an empty heap").is_none());
        subject.prepare(&mut heap).expect("it is made");
        heap.commit();
        let (mut model, mut random) = (subject.prepared(), SplitMix64::new(1));
        for _ in 0..200 {
            assert_eq!(subject.read(&mut heap).expect("a mix").as_ref(), Some(&model));
            let op = subject.draw(&mut random, 0);
            subject.apply(&mut heap, &op).expect("room");
            heap.commit();
            assert!(subject.step(&mut model, &op));
        }
    }

    #[test]
    fn models_are_those_of_the_operations() {
        the_model_is_that_of_the_operations::<1>();
        the_model_is_that_of_the_operations::<2>();
    }
}
