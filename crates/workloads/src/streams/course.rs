//! The course of a program: which word each of its accesses is to, and what it stores there.
//!
//! Everything follows from the number of the access, so that the contents of a program's memory follow from how many
//! accesses it has made.

use super::programs::{Pattern, Program, Step, Touch};
use crate::random::splitmix64;

const WORD: u64 = 8;
const WORDS_PER_LINE: u64 = 8;
/// Bits of a word: its program, the component that stored it, and how many accesses the component had made.
const PROGRAM_SHIFT: u32 = 48;
const COMPONENT_SHIFT: u32 = 40;
/// In the place of a component: the word is as it was loaded.
const LOADED: u64 = 0xFF;

/// An access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Which of the program's arrays.
    pub array: usize,
    /// Which word of it.
    pub word: u64,
    /// What it does.
    pub touch: Touch,
    /// The word that it stores, if it does.
    pub value: u64,
}

/// A program with arrays of its own.
#[derive(Debug)]
pub struct Course {
    program: &'static Program,
    /// Which of the mix's programs it is; the same program may be there several times.
    number: u64,
    seed: u64,
    /// Words of each array.
    words: Vec<u64>,
    /// The first array of each group.
    firsts: Vec<usize>,
    /// The components of as many accesses as all weights together, with how many of them were before.
    turns: Vec<(usize, u64)>,
}

impl Course {
    /// A program whose arrays have about `bytes` together, a line each at the least.
    pub fn new(program: &'static Program, number: u64, bytes: u64, seed: u64) -> Self {
        let (mut words, mut firsts) = (Vec::new(), Vec::new());
        for group in program.groups {
            firsts.push(words.len());
            let of_array = bytes * group.part / 1000 / group.arrays / WORD;
            let of_array = (of_array / WORDS_PER_LINE).max(1) * WORDS_PER_LINE;
            words.extend((0..group.arrays).map(|_| of_array));
        }
        let seed = splitmix64(seed ^ splitmix64(number));
        Course { program, number, seed, words, firsts, turns: turns(program) }
    }

    /// Its program.
    pub fn program(&self) -> &'static Program {
        self.program
    }

    /// Words of each array.
    pub fn arrays(&self) -> &[u64] {
        &self.words
    }

    /// Whether a component stores to this array.
    pub fn is_written(&self, array: usize) -> bool {
        let group = self.firsts.partition_point(|first| *first <= array) - 1;
        let components = self.program.components.iter();
        components.into_iter().any(|own| own.group == group && own.touch != Touch::Read)
    }

    /// Each word of an array after the load.
    pub fn loaded(&self, array: usize) -> u64 {
        self.own() | LOADED << COMPONENT_SHIFT | array as u64
    }

    /// Whether a word can be in this program's memory.
    #[inline]
    pub fn owns(&self, word: u64) -> bool {
        word >> PROGRAM_SHIFT == self.number + 1
    }

    const fn own(&self) -> u64 {
        (self.number + 1) << PROGRAM_SHIFT
    }

    /// Access number `access` of the program.
    #[inline]
    pub fn visit(&self, access: u64) -> Visit {
        let turns = self.turns.len() as u64;
        let (component, before) = self.turns[(access % turns) as usize];
        let of = &self.program.components[component];
        let made = access / turns * of.weight + before;
        let group = &self.program.groups[of.group];
        let array = self.firsts[of.group] + (made % group.arrays) as usize;
        let random = self.seed ^ (component as u64) << COMPONENT_SHIFT;
        let word = place(of.pattern, self.words[array], made / group.arrays, random);
        let sequence = (made + 1) & ((1 << COMPONENT_SHIFT) - 1);
        let value = self.own() | (component as u64) << COMPONENT_SHIFT | sequence;
        Visit { array, word, touch: of.touch, value }
    }

    /// The contents after `accesses` accesses, of the arrays that a component stores to; the others are as they were
    /// loaded.
    pub fn contents(&self, accesses: u64) -> Vec<Option<Vec<u64>>> {
        let mut contents: Vec<_> = (0..self.words.len())
            .map(|array| {
                let words = self.words[array] as usize;
                self.is_written(array).then(|| vec![self.loaded(array); words])
            })
            .collect();
        for access in 0..accesses {
            let visit = self.visit(access);
            if visit.touch != Touch::Read
                && let Some(words) = &mut contents[visit.array]
            {
                words[visit.word as usize] = visit.value;
            }
        }
        contents
    }
}

/// The components in the order of their accesses: each as evenly as its weight allows.
fn turns(program: &Program) -> Vec<(usize, u64)> {
    let weights: Vec<i64> = program.components.iter().map(|own| own.weight as i64).collect();
    let all: i64 = weights.iter().sum();
    let (mut due, mut made) = (vec![0; weights.len()], vec![0; weights.len()]);
    let mut turn = |_| {
        due.iter_mut().zip(&weights).for_each(|(due, weight)| *due += weight);
        let next = (0..due.len()).rev().max_by_key(|index| due[*index]).unwrap_or_default();
        due[next] -= all;
        made[next] += 1;
        (next, made[next] - 1)
    };
    (0..all).map(&mut turn).collect()
}

/// The word of an array of `words` words that a component's access number `made` is to.
pub(super) fn place(pattern: Pattern, words: u64, made: u64, random: u64) -> u64 {
    let in_lines = |words: u64| (words / WORDS_PER_LINE).max(1) * WORDS_PER_LINE;
    match pattern {
        Pattern::Sweep(Step::Words(step)) => sweep(words, step.min(words), made),
        Pattern::Sweep(Step::Planes(planes)) => sweep(words, in_lines(words / planes), made),
        Pattern::Stencil { planes, around } => {
            let at = sweep(words, WORDS_PER_LINE, made / around.len() as u64);
            let planes_off = around[(made % around.len() as u64) as usize];
            let off = planes_off * in_lines(words / planes) as i64;
            (at as i64 + off).rem_euclid(words as i64) as u64
        }
        Pattern::Runs { lines, hot } => {
            let all = words / WORDS_PER_LINE;
            let drawn = splitmix64(random ^ splitmix64(made / lines));
            let from = match hot {
                Some(hot) if drawn % 1000 < hot.runs => (all * hot.part / 1000).max(1),
                _ => all,
            };
            let first = ((u128::from(splitmix64(drawn)) * u128::from(from)) >> 64) as u64;
            // A run ends within the array, in which it may be longer than one: then its lines are visited again.
            let line = (first.min(all.saturating_sub(lines)) + made % lines) % all;
            line * WORDS_PER_LINE + drawn / 1000 % WORDS_PER_LINE
        }
    }
}

/// Access `made` of a sweep: each pass begins a line further than the one before, and when all lines have been visited
/// with the next word of them. Steps of less than a line visit each line in each pass.
fn sweep(words: u64, step: u64, made: u64) -> u64 {
    let (pass, index) = (made / (words / step), made % (words / step));
    let lines = (step / WORDS_PER_LINE).max(1);
    let word = pass / lines % step.min(WORDS_PER_LINE);
    index * step + pass % lines * WORDS_PER_LINE + word
}
