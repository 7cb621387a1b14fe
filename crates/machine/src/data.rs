//! The bytes, apart from the time that they take: what loads return, and what is durable.
//!
//! The visible image is one, since the caches are coherent. Beside it, for machines whose power
//! can be cut: the home device's contents, lines on their way there, lines in volatile DRAM; and,
//! for the crash tester, everything that the persistency model would allow ([`Image`]).

use crate::Ps;
use perdura_memory::image::{Image, LineWords, Piece, Site, patch};
use perdura_memory::{Domain, WORD};
use std::collections::{HashMap, VecDeque};

/// Words in a line.
pub(crate) const WORDS: usize = 8;

/// Lines on their way that are looked through at once.
const CROWDED: usize = 64;

/// How much of the data is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The visible image: programs run, and the power is never cut.
    Visible,
    /// Also what is durable, as the caches and devices leave it.
    Durable,
    /// Also what the persistency model allows to be durable.
    Model,
}

/// A line on its way into the persistence domain.
struct Flight {
    line: u64,
    words: LineWords,
    durable: Ps,
    /// The cores whose fences wait for it, as a mask.
    awaited: u64,
}

/// The data.
pub(crate) struct Data {
    domain: Domain,
    pub(crate) visible: Vec<u64>,
    /// The home device; empty if it is not kept.
    home: Vec<u64>,
    flights: VecDeque<Flight>,
    dram: HashMap<u64, LineWords>,
    /// What was durable by then has landed. Cores whose turns come by chance have clocks that
    /// disagree; a cut is never before this.
    landed: Ps,
    pub(crate) model: Option<Image>,
    kept: bool,
}

impl Data {
    /// `words` of data, visible and durable, able to grow to `limit` words; beyond those,
    /// `reserved` words of zero that only hardware sees.
    pub(crate) fn new(
        words: Vec<u64>,
        limit: usize,
        reserved: usize,
        domain: Domain,
        keep: Keep,
    ) -> Self {
        let kept = keep != Keep::Visible;
        let mut home = if kept { words.clone() } else { Vec::new() };
        home.resize(if kept { limit + reserved } else { 0 }, 0);
        let model = (keep == Keep::Model).then(|| Image::new(words.clone(), domain));
        let (flights, dram) = (VecDeque::new(), HashMap::new());
        let landed = Ps::default();
        Data { domain, visible: words, home, flights, dram, landed, model, kept }
    }

    /// Adds zeros at the end of the visible image, durable at once.
    pub(crate) fn grow(&mut self, words: usize) {
        self.visible.resize(words, 0);
        if let Some(model) = &mut self.model {
            model.grow(words);
        }
    }

    /// A store by a program, through the caches.
    pub(crate) fn store(&mut self, pieces: &[Piece], site: Site) {
        for piece in pieces {
            patch(&mut self.visible, piece);
        }
        if self.kept && self.domain == Domain::Persistent {
            for piece in pieces {
                self.land_line(line_number(piece.at()));
                patch(&mut self.home, piece);
            }
        }
        if let Some(model) = &mut self.model {
            model.store(pieces, site);
        }
    }

    /// Words of a line that a program stores past the caches.
    pub(crate) fn stream(&mut self, core: usize, pieces: &[Piece], site: Site) {
        for piece in pieces {
            patch(&mut self.visible, piece);
        }
        if let Some(model) = &mut self.model {
            model.stream(core, pieces, site);
        }
    }

    /// A line as programs see it.
    pub(crate) fn visible_line(&self, line: u64) -> LineWords {
        words_of(&self.visible, line)
    }

    /// A line as the home device will have it when all is there that is on its way.
    pub(crate) fn home_line(&self, line: u64) -> LineWords {
        let flying = self.flights.iter().rev().find(|flight| flight.line == line);
        flying.map_or_else(|| words_of(&self.home, line), |flight| flight.words)
    }

    /// A line leaves for the home device: it is durable from `durable` on.
    pub(crate) fn depart(&mut self, line: u64, words: LineWords, durable: Ps, core: Option<usize>) {
        if self.kept {
            if !self.dram.is_empty() {
                self.dram.remove(&line);
            }
            let awaited = core.map_or(0, |core| 1 << core);
            self.flights.push_back(Flight { line, words, durable, awaited });
        }
    }

    /// A line goes into volatile DRAM.
    pub(crate) fn enter_dram(&mut self, line: u64) {
        if self.kept {
            self.dram.insert(line, self.visible_line(line));
        }
    }

    /// A line leaves volatile DRAM for the home device.
    pub(crate) fn leave_dram(&mut self, line: u64, durable: Ps) {
        if let Some(words) = self.dram.remove(&line) {
            self.flights.push_back(Flight { line, words, durable, awaited: 0 });
        }
    }

    /// A core asks for a line that has left the caches already; when it is durable, if it is on
    /// its way.
    pub(crate) fn await_flight(&mut self, line: u64, core: usize) -> Option<Ps> {
        let flight = self.flights.iter_mut().rev().find(|flight| flight.line == line)?;
        flight.awaited |= 1 << core;
        Some(flight.durable)
    }

    /// When all lines that are on their way will have arrived.
    pub(crate) fn last_arrival(&self) -> Ps {
        self.flights.iter().map(|flight| flight.durable).max().unwrap_or_default()
    }

    /// Whether so many lines are on their way that some should land.
    pub(crate) fn is_crowded(&self) -> bool {
        self.flights.len() >= CROWDED
    }

    /// What is durable by `now` is so from here on.
    pub(crate) fn land(&mut self, now: Ps) {
        self.landed = self.landed.max(now);
        if !self.flights.is_empty() {
            self.land_if(|flight| flight.durable <= now);
        }
    }

    /// A core's fence has returned: what it asked for is durable.
    pub(crate) fn land_of(&mut self, core: usize) {
        if !self.flights.is_empty() {
            self.land_if(|flight| flight.awaited & 1 << core != 0);
        }
    }

    fn land_line(&mut self, line: u64) {
        if !self.flights.is_empty() {
            self.land_if(|flight| flight.line == line);
        }
    }

    /// Lands flights; those to the same lines that left before them are overtaken.
    fn land_if(&mut self, lands: impl Fn(&Flight) -> bool) {
        let flights = self.flights.iter().enumerate();
        let landing: Vec<(usize, u64)> = flights
            .filter(|(_, flight)| lands(flight))
            .map(|(index, flight)| (index, flight.line))
            .collect();
        let (home, mut index) = (&mut self.home, 0);
        self.flights.retain(|flight| {
            let here = index;
            index += 1;
            if lands(flight) {
                put(home, flight.line, &flight.words);
                return false;
            }
            !landing.iter().any(|(later, line)| *later > here && *line == flight.line)
        });
    }

    /// The home device after a power cut at `now`, what only hardware sees included.
    pub(crate) fn cut(&self, now: Ps) -> Vec<u64> {
        let now = now.max(self.landed);
        let mut image = self.home.clone();
        for flight in self.flights.iter().filter(|flight| flight.durable <= now) {
            put(&mut image, flight.line, &flight.words);
        }
        image
    }

    /// A line of the home device after a power cut at `now`.
    pub(crate) fn cut_line(&self, line: u64, now: Ps) -> LineWords {
        let now = now.max(self.landed);
        let arrived = |flight: &&Flight| flight.line == line && flight.durable <= now;
        let flight = self.flights.iter().rev().find(arrived);
        flight.map_or_else(|| words_of(&self.home, line), |flight| flight.words)
    }

    /// Whether there is a durable image.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept
    }
}

fn words_of(words: &[u64], line: u64) -> LineWords {
    let first = line as usize * WORDS;
    words[first..first + WORDS].try_into().expect("a whole line")
}

fn put(words: &mut [u64], line: u64, new: &LineWords) {
    let first = line as usize * WORDS;
    words[first..first + WORDS].copy_from_slice(new);
}

/// The number of the line that holds byte `at`.
pub(crate) const fn line_number(at: u64) -> u64 {
    at / (WORDS as u64 * WORD)
}
