//! The bytes, apart from the time that they take: what loads return, and what is durable.
//!
//! There is one visible image, since the caches are coherent. For machines whose power can be cut, there are also the
//! home device's contents, lines on their way there, and lines in volatile DRAM; and, for the crash tester,
//! everything that the persistency model would allow ([`Image`]).

use crate::Ps;
use crate::by_number::ByNumber;
use crate::flights::{Arrival, Flights};
use crate::held::{HeldLine, HeldStores};
use crate::mechanism::Promise;
use crate::promised::{Promised, Transactions};
use perdura_memory::image::{Image, LineWords, Piece, PrivateCopies, Site, lines_of, patch};
use perdura_memory::{Domain, LINE, PAGE, WORD};
use std::ops::Range;

/// Words in a line.
pub(crate) const WORDS: usize = 8;

/// Number of lines on their way from which it is worth landing those that have arrived.
const CROWDED: usize = 64;

/// Number of lines on their way from which they are landed early, where all cores wait for them.
const MANY: usize = 4096;

/// How much of the data is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The visible image: programs run, and the power is never cut.
    Visible,
    /// Also the durable image that follows from caches and devices.
    Durable,
    /// Also the durable images that the persistency model allows.
    Model,
}

/// The data.
pub(crate) struct Data {
    domain: Domain,
    pub(crate) visible: Vec<u64>,
    /// Stores of speculating cores, which only `visible` has.
    held_stores: HeldStores,
    /// The home device; empty if it is not kept.
    home: Vec<u64>,
    /// Tracked even if no home device is kept, since timing must not depend on what is kept.
    flights: Flights,
    crowded: usize,
    dram: ByNumber<LineWords>,
    /// For lines that a mechanism has redirected or kept: when they are durable.
    elsewhere: ByNumber<Ps>,
    /// Lines durable by this time have landed. With a seeded schedule the cores' clocks disagree; a
    /// power cut is never before this time.
    landed: Ps,
    pub(crate) model: Option<Image>,
    kept: bool,
    /// Whether mechanisms are given lines' contents.
    shown: bool,
    /// Size of `elsewhere` from which it is worth removing what is durable.
    elsewhere_crowded: usize,
    /// The simulated caches do not determine what is durable: the page cache of a file lies between them and
    /// the device, or a process that died has left lines that are not in them.
    guesses: bool,
    /// Fences from this number on fail, as syncs of a file do; the number of fences so far; the core whose
    /// fence was the first to fail.
    failing: Option<u64>,
    fences: u64,
    failed_on: Option<usize>,
    promised: Promised,
    /// On a file, the pages of which programs have private copies.
    copies: Option<PrivateCopies>,
    /// Landings are held back until the crash points before them have been shown.
    holds: bool,
    held: Vec<Landing>,
}

/// Which flights land.
#[derive(Clone, Copy)]
enum Landing {
    /// Those durable by then.
    By(Ps),
    /// Those that a core's fence has waited for.
    Of(usize),
}

impl Data {
    /// `words` of data, visible and durable, able to grow to `limit` words; beyond those `own` and then
    /// zeros, `reserved` words in all, that only hardware sees.
    pub(crate) fn new(
        words: Vec<u64>,
        limit: usize,
        (own, reserved): (Vec<u64>, usize),
        domain: Domain,
        keep: Keep,
        left: Option<Image>,
    ) -> Self {
        let kept = keep != Keep::Visible;
        let mut home = match &left {
            _ if !kept => Vec::new(),
            Some(left) => left.certain().to_vec(),
            None => words.clone(),
        };
        home.resize(if kept { limit } else { 0 }, 0);
        home.extend(own);
        home.resize(if kept { limit + reserved } else { 0 }, 0);
        let guesses = left.is_some() || domain == Domain::Media;
        let model = || left.unwrap_or_else(|| Image::new(words.clone(), domain));
        let model = (keep == Keep::Model).then(model);
        let (flights, dram) = (Flights::default(), ByNumber::default());
        let elsewhere = ByNumber::default();
        let landed = Ps::default();
        let crowded = CROWDED;
        let (failing, fences) = (None, 0);
        Data {
            domain,
            visible: words,
            held_stores: HeldStores::default(),
            home,
            flights,
            crowded,
            dram,
            elsewhere,
            landed,
            model,
            kept,
            shown: kept,
            elsewhere_crowded: CROWDED,
            guesses,
            failing,
            fences,
            failed_on: None,
            promised: Promised::default(),
            copies: (domain == Domain::Media && keep == Keep::Model).then(PrivateCopies::default),
            holds: false,
            held: Vec::new(),
        }
    }

    /// Fences fail from the one with this number on, counted from 1.
    pub(crate) fn fail_fences(&mut self, from: Option<u64>) {
        self.failing = from;
    }

    /// Whether a fence has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failing.is_some_and(|from| self.fences >= from)
    }

    /// The core whose fence was the first to fail.
    pub(crate) fn failed_on(&self) -> Option<usize> {
        self.failed_on
    }

    /// A core asks for lines, given by their offsets. After a failed fence nothing is written any
    /// more.
    pub(crate) fn ask(&mut self, core: usize, lines: impl Iterator<Item = u64> + Clone) {
        if let Promised::Order(order) = &mut self.promised {
            lines.clone().for_each(|at| order.asks(core, line_number(at)));
        }
        if !self.has_failed()
            && let Some(model) = &mut self.model
        {
            model.write_back(core, lines);
        }
    }

    /// A core's fence: the lines that the core has written back are durable at `now`, unless this fence fails.
    pub(crate) fn fence(&mut self, core: usize, now: Ps) {
        if let Promised::Order(order) = &mut self.promised {
            order.fenced(core, now);
        }
        self.fences += 1;
        if self.has_failed() {
            self.failed_on.get_or_insert(core);
        } else if let Some(model) = &mut self.model {
            let shared = |line: &u64| self.copies.as_ref().is_some_and(|copies| !copies.has(*line));
            let lines: Vec<u64> = model.kept_aside().filter(shared).collect();
            model.fence(core);
            // The file changes, and pages without copies with it.
            for line in lines {
                put(&mut self.visible, line_number(line), &model.in_file(line));
            }
        }
    }

    /// Whether programs have private copies of at least `spare` pages more than when this was last true.
    pub(crate) fn give_back_due(&mut self, spare: u64) -> bool {
        self.copies.as_mut().is_some_and(|copies| copies.is_due(spare))
    }

    /// The next whole pages with copies, at most `most`, unless a sync has failed.
    pub(crate) fn next_copies(&mut self, most: u64) -> Option<Range<u64>> {
        if self.has_failed() {
            return None;
        }
        let run = self.copies.as_mut()?.next_run(most)?;
        let whole = self.visible.len() as u64 * WORD / PAGE;
        Some(run.start..run.end.min(whole).max(run.start))
    }

    /// Whether no line of a page waits for a fence.
    pub(crate) fn is_settled(&self, page: u64) -> bool {
        self.model.as_ref().is_some_and(|model| !model.keeps_aside(page))
    }

    /// Whether a line is as in the file.
    pub(crate) fn is_as_in_file(&self, line: u64) -> bool {
        let model = self.model.as_ref();
        model.is_some_and(|model| model.in_file(line) == words_of(&self.visible, line_number(line)))
    }

    /// A page's private copy is dropped, with whatever was stored to it and not written back.
    pub(crate) fn drop_copy(&mut self, page: u64) {
        if let (Some(model), Some(copies)) = (&mut self.model, &mut self.copies) {
            model.drop_copy(page);
            copies.dropped(page);
            for line in lines_of(page) {
                put(&mut self.visible, line_number(line), &model.in_file(line));
            }
        }
    }

    fn note_copies(&mut self, pieces: &[Piece]) {
        if let Some(copies) = &mut self.copies {
            pieces.iter().for_each(|piece| copies.stored(piece.at()));
        }
    }

    /// Adds zeros at the end of the visible image, durable at once.
    pub(crate) fn grow(&mut self, words: usize) {
        self.visible.resize(words, 0);
        if let Some(model) = &mut self.model {
            model.grow(words);
        }
    }

    /// A store by a core's program, through the caches.
    pub(crate) fn store(&mut self, core: usize, pieces: &[Piece], site: Site) {
        if self.held_stores.has(core) {
            return self.held_stores.store(core, &mut self.visible, pieces, site);
        }
        for piece in pieces {
            patch(&mut self.visible, piece);
        }
        self.record(core, pieces, site);
    }

    /// Records a store that is visible: for the model, for what mechanisms promise, and where stores are durable at
    /// once.
    #[inline(always)]
    fn record(&mut self, core: usize, pieces: &[Piece], site: Site) {
        self.note_copies(pieces);
        match &mut self.promised {
            Promised::Order(order) => order.stored(pieces),
            Promised::Transactions(transactions) => transactions.stored(core, pieces),
            _ => {}
        }
        if self.domain == Domain::Persistent {
            for piece in pieces {
                self.land_line(line_number(piece.at()));
                if self.kept {
                    patch(&mut self.home, piece);
                }
            }
        }
        if let Some(model) = &mut self.model {
            model.store(pieces, site);
        }
    }

    /// Words of a line that a program stores past the caches.
    pub(crate) fn stream(&mut self, core: usize, pieces: &[Piece], site: Site) {
        self.note_copies(pieces);
        for piece in pieces {
            patch(&mut self.visible, piece);
        }
        match &mut self.promised {
            Promised::Order(order) => {
                order.stored(pieces);
                pieces.iter().for_each(|piece| order.asks(core, line_number(piece.at())));
            }
            Promised::Transactions(transactions) => transactions.stored(core, pieces),
            _ => {}
        }
        let failed = self.has_failed();
        if let Some(model) = &mut self.model {
            if failed { model.store(pieces, site) } else { model.stream(core, pieces, site) }
        }
    }

    /// From now on mechanisms are given lines' contents: they put back what an aborted transaction has stored.
    pub(crate) fn show(&mut self) {
        self.shown = true;
    }

    /// A line as programs see it, without the stores of cores that speculate; zeros if neither a durable image is kept
    /// nor a mechanism wants them, since the words are not used then.
    pub(crate) fn committed_line(&self, line: u64) -> LineWords {
        if !self.shown {
            return [0; WORDS];
        }
        let mut words = words_of(&self.visible, line);
        self.held_stores.committed(line, &mut words);
        words
    }

    /// From now on a core's stores are held: they are in `visible` only, until they are [released](Self::release) or
    /// [forgotten](Self::forget).
    pub(crate) fn hold_stores(&mut self, core: usize) {
        self.held_stores.begin(core);
    }

    /// Whether a core's stores are held.
    #[inline(always)]
    pub(crate) fn holds_stores(&self, core: usize) -> bool {
        self.held_stores.has(core)
    }

    /// A core's held stores.
    pub(crate) fn held_lines(&self, core: usize) -> Vec<HeldLine> {
        self.held_stores.lines(core, &self.visible)
    }

    /// A core's held stores count as committed for mechanisms, but are not recorded yet.
    pub(crate) fn settle(&mut self, core: usize) {
        self.held_stores.settle(core);
    }

    /// Takes the words of a speculating core's last store, unless they have been taken: their offsets, and their values.
    pub(crate) fn take_fresh(&mut self, core: usize) -> Vec<(u64, u64)> {
        self.held_stores.take_fresh(core, &self.visible)
    }

    /// A core's held stores are stores like others from now on, all at once: the words of each line in no order. If they
    /// are `durable`, their lines have been written back, and waited for by a fence of the core.
    pub(crate) fn release(&mut self, core: usize, lines: &[HeldLine], durable: bool) {
        self.held_stores.end(core);
        for HeldLine { pieces, site, .. } in lines {
            self.record(core, pieces, site);
        }
        if durable && let Some(model) = &mut self.model {
            model.write_back(core, lines.iter().map(|held| held.line * LINE));
            model.fence(core);
        }
    }

    /// Whether what the persistency model allows is kept, which knows no times.
    pub(crate) fn keeps_model(&self) -> bool {
        self.model.is_some()
    }

    /// A core's held stores are undone.
    pub(crate) fn forget(&mut self, core: usize) {
        self.held_stores.undo(core, &mut self.visible);
    }

    /// A line as the home device will have it when all is there that is on its way; zeros if no durable image is kept.
    pub(crate) fn home_line(&self, line: u64) -> LineWords {
        let landed = || if self.kept { words_of(&self.home, line) } else { [0; WORDS] };
        self.flights.newest(line).map_or_else(landed, |flight| flight.words)
    }

    /// When the last flight of a line lands.
    pub(crate) fn on_its_way(&self, line: u64) -> Option<Ps> {
        self.flights.newest(line).map(|flight| flight.durable)
    }

    /// A line leaves for the home device: it is durable from `durable` on.
    pub(crate) fn depart(
        &mut self,
        arrival: Arrival,
        line: u64,
        words: LineWords,
        durable: Ps,
        core: Option<usize>,
    ) {
        self.flights.depart(arrival, line, words, durable, core);
    }

    /// `words` go into volatile DRAM as the contents of `line`. Where caches are persistent, the home device
    /// already has them: they were durable when stored.
    pub(crate) fn enter_dram(&mut self, line: u64, words: LineWords) {
        if self.domain != Domain::Persistent {
            self.dram.insert(line, words);
        }
    }

    /// A line leaves volatile DRAM for the home device.
    pub(crate) fn leave_dram(&mut self, arrival: Arrival, line: u64, durable: Ps) {
        if let Some(words) = self.dram.remove(&line) {
            self.flights.depart(arrival, line, words, durable, None);
        }
    }

    /// A dirty line is taken out of volatile DRAM.
    pub(crate) fn take_dram(&mut self, line: u64) -> LineWords {
        self.dram.remove(&line).unwrap_or([0; WORDS])
    }

    /// The home device gets the contents of a line that volatile DRAM has: the copy in DRAM is clean.
    pub(crate) fn forget_dram(&mut self, line: u64) {
        if !self.dram.is_empty() {
            self.dram.remove(&line);
        }
    }

    /// Restores the visible contents of a line.
    pub(crate) fn restore(&mut self, line: u64, words: LineWords) {
        put(&mut self.visible, line, &words);
    }

    /// Starts to track what a mechanism promises.
    pub(crate) fn keep_promise(&mut self, promise: Promise) {
        self.promised = Promised::new(promise, &self.visible);
    }

    /// The tracked transactions, if transactions are promised.
    pub(crate) fn transactions(&mut self) -> Option<&mut Transactions> {
        match &mut self.promised {
            Promised::Transactions(transactions) => Some(transactions),
            _ => None,
        }
    }

    /// An epoch ends.
    pub(crate) fn note_epoch(&mut self) {
        if let Promised::Epochs(epochs) = &mut self.promised {
            let mut words = self.visible.clone();
            self.held_stores.committed_image(&mut words);
            epochs.ends(words);
        }
    }

    /// The oldest ended epoch not yet durable is durable from `at` on.
    pub(crate) fn promise(&mut self, at: Ps) {
        if let Promised::Epochs(epochs) = &mut self.promised {
            epochs.is_durable(at, self.landed);
        }
    }

    /// The first word that breaks the promise in `left`, the image after a power cut at `now`.
    pub(crate) fn broken_promise(&self, left: &[u64], now: Ps) -> Option<usize> {
        self.promised.broken(left, now.max(self.landed))
    }

    /// Holds landings back until [`let_land`](Self::let_land), or stops doing so.
    pub(crate) fn hold(&mut self, holds: bool) {
        self.holds = holds;
        self.let_land();
    }

    /// Lands what was held back.
    pub(crate) fn let_land(&mut self) {
        let holds = std::mem::replace(&mut self.holds, false);
        for landing in std::mem::take(&mut self.held) {
            match landing {
                Landing::By(now) => self.land(now),
                Landing::Of(core) => self.land_of(core),
            }
        }
        self.holds = holds;
    }

    /// Arrivals after `after` and by `until`, in order, one for each time.
    pub(crate) fn arrivals(&self, after: Ps, until: Ps) -> Vec<(Ps, Arrival)> {
        let after = after.max(self.landed);
        let flights =
            self.flights.all().filter(|flight| flight.durable > after && flight.durable <= until);
        let mut arrivals: Vec<_> = flights.map(|flight| (flight.durable, flight.arrival)).collect();
        arrivals.sort_by_key(|(time, _)| *time);
        arrivals.dedup_by_key(|(time, _)| *time);
        arrivals
    }

    /// A mechanism has redirected a line, or kept it: it is durable from `durable` on.
    pub(crate) fn leave_elsewhere(&mut self, line: u64, durable: Ps) {
        if self.elsewhere.len() >= self.elsewhere_crowded {
            // No core is behind this time: nothing waits for these lines.
            let landed = self.landed;
            self.elsewhere.retain(|_, durable| *durable > landed);
            self.elsewhere_crowded = CROWDED.max(2 * self.elsewhere.len());
        }
        self.elsewhere.insert(line, durable);
    }

    /// A core writes back a line that has left the caches already. Returns when it is durable, if it is on
    /// its way. Where caches are persistent, only streamed lines count.
    pub(crate) fn await_flight(&mut self, line: u64, core: usize) -> Option<Ps> {
        let flight = self.flights.await_line(line, core, self.domain != Domain::Persistent);
        flight.max(self.elsewhere.get(&line).copied())
    }

    /// When all lines that are on their way will have arrived; some earlier time if none is.
    pub(crate) fn last_arrival(&self) -> Ps {
        self.flights.last()
    }

    /// To be called when no power cut can come before all lines on their way have arrived: if there are many, they land
    /// at once, unless each arrival is to be shown.
    pub(crate) fn land_ahead_if_crowded(&mut self) {
        if self.flights.len() >= MANY && !self.holds {
            self.land(self.flights.last());
        }
    }

    /// Lands what has arrived by `now` if many lines are on their way.
    #[inline]
    pub(crate) fn land_if_crowded(&mut self, now: Ps) {
        if self.flights.len() >= self.crowded && !self.holds {
            self.land(now);
            // Flights of a core whose clock is ahead may stay for long.
            self.crowded = CROWDED.max(2 * self.flights.len());
        }
    }

    /// Lands the lines that are durable by `now`.
    pub(crate) fn land(&mut self, now: Ps) {
        if self.holds {
            self.held.push(Landing::By(now));
            return;
        }
        self.landed = self.landed.max(now);
        let (home, kept) = (&mut self.home, self.kept);
        self.flights.land(self.landed, |line, words| land(home, kept, line, words));
    }

    /// Lands the lines that a core's fence has waited for.
    pub(crate) fn land_of(&mut self, core: usize) {
        if self.holds {
            self.held.push(Landing::Of(core));
            return;
        }
        let (home, kept) = (&mut self.home, self.kept);
        self.flights.land_of(core, |line, words| land(home, kept, line, words));
    }

    /// Lands the lines that are durable by `now`: all that a core's next fence would have waited for.
    pub(crate) fn land_awaited(&mut self, core: usize, now: Ps) {
        self.flights.await_none(core);
        self.land(now);
    }

    fn land_line(&mut self, line: u64) {
        let (home, kept) = (&mut self.home, self.kept);
        self.flights.land_line(line, |line, words| land(home, kept, line, words));
    }

    /// The home device after a power cut at `now`, the lines that only hardware sees included.
    pub(crate) fn cut(&self, now: Ps) -> Vec<u64> {
        let now = now.max(self.landed);
        let mut image = self.home.clone();
        for flight in self.flights.all().filter(|flight| flight.durable <= now) {
            put(&mut image, flight.line, &flight.words);
        }
        image
    }

    /// A line of the home device after a power cut at `now`; where the caches do not determine it, the least that the
    /// model allows.
    pub(crate) fn cut_line(&self, line: u64, now: Ps) -> LineWords {
        if self.guesses
            && let Some(model) = &self.model
        {
            return model.line(line * LINE, 0);
        }
        let flight = self.flights.newest_by(line, now.max(self.landed));
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

fn land(home: &mut [u64], kept: bool, line: u64, words: &LineWords) {
    if kept {
        put(home, line, words);
    }
}

fn put(words: &mut [u64], line: u64, new: &LineWords) {
    let first = line as usize * WORDS;
    words[first..first + WORDS].copy_from_slice(new);
}

/// The number of the line that holds byte `at`.
pub(crate) const fn line_number(at: u64) -> u64 {
    at / (WORDS as u64 * WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::list;
    use crate::{Machine, Options, presets};
    use perdura_memory::Memory;

    /// Words that a machine keeps beside what programs see, after three epochs; and how many they see.
    fn kept_words(mechanism: &str, keep: Keep) -> (usize, usize) {
        let config = presets::load("tiny-dram").expect("a preset");
        let mechanism = list::design(mechanism, &config, None).expect("a mechanism");
        let machine =
            Machine::new(config, &[7; 1 << 20], Options { keep, mechanism, ..Options::default() });
        for epoch in 0..3 {
            (0..64).for_each(|line| machine.store(line * LINE, epoch));
            machine.end_epoch();
        }
        let state = machine.state();
        let data = &state.hardware.data;
        (data.home.len() + data.promised.words(), data.visible.len())
    }

    /// Timed runs keep neither an image of the home device nor one for each epoch.
    #[test]
    fn timed_runs_keep_the_visible_image_alone() {
        for kind in list::KINDS {
            let (kept, visible) = kept_words(kind.name, Keep::Visible);
            assert_eq!((kept, visible), (0, (1 << 20) / 8), "{}", kind.name);
            let (kept, _) = kept_words(kind.name, Keep::Durable);
            assert!(kept >= visible, "{}", kind.name);
        }
    }
}
