//! A set under each policy, written to be obviously right rather than fast.

use perdura_memory::reference::SplitMix64;

/// A set of a cache.
pub(crate) trait Model {
    /// Returns whether the line was there, and the line that it replaced.
    fn access(&mut self, line: u64) -> (bool, Option<u64>);

    /// Takes a line out.
    fn remove(&mut self, line: u64);
}

/// LRU and bimodal insertion: the lines from the most recently used one to the next to go.
pub(crate) struct List {
    pub(crate) ways: usize,
    pub(crate) lines: Vec<u64>,
    /// Bimodal: draws where a new line is inserted.
    pub(crate) bimodal: Option<SplitMix64>,
}

impl Model for List {
    fn access(&mut self, line: u64) -> (bool, Option<u64>) {
        if self.lines.contains(&line) {
            self.remove(line);
            self.lines.insert(0, line);
            return (true, None);
        }
        let out = if self.lines.len() == self.ways { self.lines.pop() } else { None };
        let front = self.bimodal.as_mut().is_none_or(|random| random.below(32) == 0);
        self.lines.insert(if front { 0 } else { self.lines.len() }, line);
        (false, out)
    }

    fn remove(&mut self, line: u64) {
        self.lines.retain(|&other| other != line);
    }
}

/// Random replacement: a number for each victim.
pub(crate) struct Any {
    pub(crate) ways: Vec<Option<u64>>,
    pub(crate) random: SplitMix64,
}

impl Model for Any {
    fn access(&mut self, line: u64) -> (bool, Option<u64>) {
        if self.ways.contains(&Some(line)) {
            return (true, None);
        }
        let empty = self.ways.iter().position(Option::is_none);
        let way = empty.unwrap_or_else(|| self.random.below(self.ways.len() as u64) as usize);
        (false, self.ways[way].replace(line))
    }

    fn remove(&mut self, line: u64) {
        empty(&mut self.ways, line);
    }
}

fn empty(ways: &mut [Option<u64>], line: u64) {
    ways.iter_mut().filter(|way| **way == Some(line)).for_each(|way| *way = None);
}

/// Tree pseudo-LRU, as a tree.
pub(crate) enum Tree {
    Way(usize),
    Fork { middle: usize, right_next: bool, left: Box<Tree>, right: Option<Box<Tree>> },
}

impl Tree {
    /// Over `size` ways (a power of two) from `first` on; those from `ways` on do not exist.
    pub(crate) fn new(first: usize, size: usize, ways: usize) -> Self {
        if size == 1 {
            return Tree::Way(first);
        }
        let middle = first + size / 2;
        let below = |first| Box::new(Tree::new(first, size / 2, ways));
        let right = (middle < ways).then(|| below(middle));
        Tree::Fork { middle, right_next: false, left: below(first), right }
    }

    fn next(&self) -> usize {
        match self {
            Tree::Way(way) => *way,
            Tree::Fork { right_next: true, right: Some(right), .. } => right.next(),
            Tree::Fork { left, .. } => left.next(),
        }
    }

    fn turn_away_from(&mut self, way: usize) {
        let Tree::Fork { middle, right_next, left, right } = self else { return };
        *right_next = way < *middle;
        match right {
            Some(right) if way >= *middle => right.turn_away_from(way),
            _ => left.turn_away_from(way),
        }
    }
}

pub(crate) struct TreeSet {
    pub(crate) ways: Vec<Option<u64>>,
    pub(crate) tree: Tree,
}

impl Model for TreeSet {
    fn access(&mut self, line: u64) -> (bool, Option<u64>) {
        let place = |what| self.ways.iter().position(|&way| way == what);
        let hit = place(Some(line));
        let way = hit.or(place(None)).unwrap_or_else(|| self.tree.next());
        self.tree.turn_away_from(way);
        (hit.is_some(), self.ways[way].replace(line).filter(|_| hit.is_none()))
    }

    fn remove(&mut self, line: u64) {
        empty(&mut self.ways, line);
    }
}

/// Quad-age, each rule read off the notation at each access.
pub(crate) struct AgedSet {
    pub(crate) notation: String,
    pub(crate) ways: Vec<Option<u64>>,
    pub(crate) ages: Vec<u64>,
    pub(crate) random: SplitMix64,
}

impl AgedSet {
    pub(crate) fn new(notation: &str, ways: usize, seed: u64) -> Self {
        AgedSet {
            notation: notation.to_owned(),
            ways: vec![None; ways],
            ages: vec![3; ways],
            random: SplitMix64::new(seed),
        }
    }

    /// The digits after a letter.
    fn rule(&self, letter: &str) -> Vec<u64> {
        let part = self.notation.split('_').find(|part| part.starts_with(letter)).unwrap();
        part.chars().filter_map(|c| c.to_digit(10)).map(u64::from).collect()
    }

    fn raise(&mut self, accessed: Option<usize>) {
        let update = self.rule("U")[0];
        let but = if update == 1 || update == 3 { accessed } else { None };
        let oldest = |ages: &[u64], but: Option<usize>| {
            let others = ages.iter().enumerate().filter(|(way, _)| Some(*way) != but);
            others.map(|(_, &age)| age).max()
        };
        let by = match update {
            0 | 1 => 3 - oldest(&self.ages, but).unwrap_or(3),
            _ => u64::from(oldest(&self.ages, None) != Some(3)),
        };
        for (way, age) in self.ages.iter_mut().enumerate() {
            *age += if Some(way) == but { 0 } else { by };
        }
    }

    fn choose(&self) -> usize {
        let replace = self.rule("R")[0];
        let empty: Vec<usize> = (0..self.ways.len()).filter(|&w| self.ways[w].is_none()).collect();
        let chosen = if replace == 2 { empty.last() } else { empty.first() };
        chosen.copied().or(self.ages.iter().position(|&age| age == 3)).unwrap_or(0)
    }
}

impl Model for AgedSet {
    fn access(&mut self, line: u64) -> (bool, Option<u64>) {
        let on_miss_only = self.notation.ends_with("UMO");
        let hit = self.ways.iter().position(|&way| way == Some(line));
        let (way, out) = match hit {
            Some(way) => {
                self.ages[way] = match self.ages[way] {
                    3 => self.rule("H")[0],
                    2 => self.rule("H")[1],
                    _ => 0,
                };
                (way, None)
            }
            None => {
                if on_miss_only {
                    self.raise(None);
                }
                let way = self.choose();
                self.ages[way] = match self.rule("M")[..] {
                    [often, rare] => {
                        if self.random.below(16) == 0 {
                            rare
                        } else {
                            often
                        }
                    }
                    [age] => age,
                    _ => unreachable!("one or two digits"),
                };
                (way, self.ways[way].replace(line))
            }
        };
        if !on_miss_only {
            self.raise(Some(way));
        }
        (hit.is_some(), out)
    }

    fn remove(&mut self, line: u64) {
        empty(&mut self.ways, line);
    }
}
