//! The images that a crash point may leave: the lines that may be in several states, and which images of them are
//! tried.
//!
//! The extremes (nothing more, everything), the caches' own image, single lines, all but one, pairs, parts of one
//! line's stores, random subsets that lean either way; all of them if they are few.

use perdura_memory::image::{Cut, Image, LineWords};
use perdura_memory::random::SplitMix64;

/// The maximum number of states of a line that are distinguished: more are thinned out.
const MOST_STATES: usize = 12;
/// Partial copies that are tried at a crash point.
const PARTS: u64 = 2;

/// A line with more than one possible state.
pub(crate) struct Line {
    pub(crate) at: u64,
    /// Its possible contents, from the least to the most; after these, other states.
    pub(crate) states: Vec<LineWords>,
    /// How many are prefixes of its stores.
    ordered: usize,
    /// For each of those, how many of the line's stores it includes.
    pub(crate) steps: Vec<usize>,
}

/// The lines at a crash point.
pub(crate) struct Candidates {
    pub(crate) lines: Vec<Line>,
    /// Images made of whole states that were found by other means.
    special: Vec<Vec<u16>>,
    random: SplitMix64,
    turn: u64,
    fixed: usize,
    /// Every combination, if there are few: how many, and which is next.
    exhaustive: Option<(u64, u64)>,
}

impl Candidates {
    /// The lines of `image` that may be in several states; `real` gives the line as the caches leave it. All
    /// combinations are tried if there are at most `most`.
    pub(crate) fn new(
        image: &Image,
        real: impl Fn(u64) -> LineWords,
        seed: u64,
        most: u64,
    ) -> Self {
        let mut lines: Vec<Line> = image
            .pending()
            .filter_map(|(at, steps)| {
                let kept: Vec<usize> = thin(steps);
                let mut states: Vec<LineWords> = Vec::new();
                let mut counts = Vec::new();
                for step in kept {
                    let words = image.line(at, step);
                    if states.last() != Some(&words) {
                        states.push(words);
                        counts.push(step);
                    }
                }
                let ordered = states.len();
                (ordered > 1).then_some(Line { at, states, ordered, steps: counts })
            })
            .collect();
        let mut special = vec![lines.iter_mut().map(|line| line.index_of(real(line.at))).collect()];
        for part in 0..PARTS {
            if lines.is_empty() {
                break;
            }
            let words = image.cut(Cut::Seed(seed ^ part << 48));
            let pick = |line: &mut Line| {
                let first = line.at as usize / 8;
                line.index_of(words[first..first + 8].try_into().expect("a line"))
            };
            special.push(lines.iter_mut().map(pick).collect());
        }
        let combinations = lines
            .iter()
            .try_fold(1_u64, |product, line| product.checked_mul(line.ordered as u64))
            .filter(|product| *product <= most);
        let exhaustive = combinations.map(|count| (count, 0));
        let random = SplitMix64::new(seed);
        Candidates { lines, special, random, turn: 0, fixed: 0, exhaustive }
    }

    /// The number of combinations of whole states, approximately.
    pub(crate) fn possible(&self) -> f64 {
        self.lines.iter().map(|line| line.ordered as f64).product()
    }

    /// Whether every combination was given.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhaustive.is_some_and(|(count, next)| next == count)
            && self.fixed >= self.special.len()
    }

    /// The next image, as a state for each line; `None` when there are no more. Some come twice.
    pub(crate) fn next(&mut self) -> Option<Vec<u16>> {
        if self.fixed < self.special.len() {
            self.fixed += 1;
            return Some(self.special[self.fixed - 1].clone());
        }
        if let Some((count, next)) = &mut self.exhaustive {
            if next == count {
                return None;
            }
            let mut rest = *next;
            *next += 1;
            return Some(
                self.lines
                    .iter()
                    .map(|line| {
                        let state = rest % line.ordered as u64;
                        rest /= line.ordered as u64;
                        state as u16
                    })
                    .collect(),
            );
        }
        self.turn += 1;
        Some(match self.turn {
            1 => self.all(|_| 0),
            2 => self.all(|line| line.ordered as u16 - 1),
            turn => self.chosen(turn),
        })
    }

    /// The image that has all stores of all lines.
    pub(crate) fn all_whole(&self) -> Vec<u16> {
        self.all(Line::most)
    }

    /// An image of which each line has all of its stores, none, or the first of them, at random.
    pub(crate) fn random_whole(&self, seed: u64) -> Vec<u16> {
        let mut random = SplitMix64::new(seed ^ 0x6c_6561_7665);
        let lean = random.below(4);
        let state = |line: &Line| match (lean, random.below(6)) {
            (0, 1..) => 0,
            (1, 1..) => line.most(),
            (2, _) => line.most() * random.below(2) as u16,
            _ => random.below(u64::from(line.most()) + 1) as u16,
        };
        self.lines.iter().map(state).collect()
    }

    fn all(&self, state: impl Fn(&Line) -> u16) -> Vec<u16> {
        self.lines.iter().map(state).collect()
    }

    fn chosen(&mut self, turn: u64) -> Vec<u16> {
        let count = self.lines.len() as u64;
        let one = self.random.below(count) as usize;
        let two = self.random.below(count) as usize;
        let (least, most) = (self.all(|_| 0), self.all(|line| line.ordered as u16 - 1));
        match turn % 6 {
            // One line alone, and all but one.
            0 => with(&least, &[(one, most[one])]),
            1 => with(&most, &[(one, 0)]),
            // Two lines alone, and all but two.
            2 if self.random.below(2) == 0 => with(&least, &[(one, most[one]), (two, most[two])]),
            2 => with(&most, &[(one, 0), (two, 0)]),
            // A part of one line's stores, without the others and with them.
            3 | 4 => {
                let part = self.random.below(u64::from(most[one]) + 1) as u16;
                with(if turn % 6 == 3 { &least } else { &most }, &[(one, part)])
            }
            _ => {
                let lean = self.random.below(5);
                let random = &mut self.random;
                most.iter()
                    .map(|most| {
                        let leans = random.below(6) != 0;
                        match lean {
                            0 if leans => 0,
                            1 if leans => *most,
                            2 => *most * random.below(2) as u16,
                            _ => random.below(u64::from(*most) + 1) as u16,
                        }
                    })
                    .collect()
            }
        }
    }

    /// Whether an image has all stores of all lines.
    pub(crate) fn is_whole(&self, states: &[u16]) -> bool {
        self.lines.iter().zip(states).all(|(line, state)| line.is_most(*state))
    }

    /// How many lines of an image lack stores.
    pub(crate) fn lost(&self, states: &[u16]) -> usize {
        self.lines.iter().zip(states).filter(|(line, state)| !line.is_most(**state)).count()
    }

    /// The lines of an image that differ from the least, with their contents.
    pub(crate) fn changes(&self, states: &[u16]) -> impl Iterator<Item = (u64, LineWords)> {
        self.lines
            .iter()
            .zip(states)
            .filter(|(_, state)| **state != 0)
            .map(|(line, state)| (line.at, line.states[usize::from(*state)]))
    }
}

impl Line {
    /// The index of the state with these words, which is added if missing.
    fn index_of(&mut self, words: LineWords) -> u16 {
        let found = self.states.iter().position(|state| *state == words);
        found.unwrap_or_else(|| {
            self.states.push(words);
            self.states.len() - 1
        }) as u16
    }

    /// Whether the state has all of the line's stores.
    pub(crate) fn is_most(&self, state: u16) -> bool {
        usize::from(state) == self.ordered - 1
    }

    /// The state that has all of the line's stores.
    pub(crate) fn most(&self) -> u16 {
        self.ordered as u16 - 1
    }
}

/// Numbers of steps from none to all, thinned out if there are many.
fn thin(steps: usize) -> Vec<usize> {
    if steps < MOST_STATES {
        return (0..=steps).collect();
    }
    (0..MOST_STATES).map(|index| index * steps / (MOST_STATES - 1)).collect()
}

fn with(states: &[u16], changes: &[(usize, u16)]) -> Vec<u16> {
    let mut states = states.to_vec();
    changes.iter().for_each(|(line, state)| states[*line] = *state);
    states
}
