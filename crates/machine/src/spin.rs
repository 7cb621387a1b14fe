//! Cores that spin: what each has looked at since it last paused, and which of them sleep.
//!
//! A turn of a spin loop that has only loaded will load the same until another core takes one of those lines
//! to store to it. So by the clock a core whose last two turns were such, and the same, need not be stepped:
//! it sleeps until then. (What it loaded before the first of them may have been for something else.) A core
//! that has looked at nothing here waits for something that the machine does not see; it goes on with the core
//! furthest behind of those that do not wait. When every core waits, all are stepped: what one that sleeps is
//! really waiting for may not be what it looks at, it may count its turns, or wait for ever, which is found out.

/// Lines that a core which sleeps may have looked at.
const MOST: usize = 4;

/// The waiting of all cores.
#[derive(Default)]
pub(crate) struct Spins {
    /// Cores take turns by the clock, and there are several.
    on: bool,
    looks: Vec<Looks>,
    /// Cores that sleep, and those that wait for what is not seen, as masks.
    asleep: u64,
    blind: u64,
}

/// What a core has looked at since it last paused.
#[derive(Clone, Copy, Default)]
struct Looks {
    lines: [u64; MOST],
    count: usize,
    /// What it had looked at in the turn before, if that was all that it did.
    before: [u64; MOST],
    counted: usize,
    /// It has done more than look at that many lines.
    busy: bool,
}

impl Looks {
    fn has(&self, line: u64) -> bool {
        self.lines[..self.count].contains(&line)
    }

    /// The turn is over. Whether it was as the one before.
    fn turn(&mut self) -> bool {
        let (lines, before) = (&self.lines[..self.count], &self.before[..self.counted]);
        let same = lines.len() == before.len() && lines.iter().all(|line| before.contains(line));
        (self.before, self.counted) = (self.lines, self.count);
        same
    }
}

/// How a core waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Its turn may have done something else: it is stepped.
    Perhaps,
    /// For what is not seen.
    Blindly,
    /// For a line: it sleeps.
    Asleep,
}

impl Spins {
    /// For this many programs, that are about to run.
    pub(crate) fn start(&mut self, programs: usize, by_the_clock: bool) {
        let looks = vec![Looks { busy: true, ..Looks::default() }; programs];
        *self = Spins { on: by_the_clock && programs > 1, looks, asleep: 0, blind: 0 };
    }

    /// Cores that sleep, as a mask.
    #[inline]
    pub(crate) fn asleep(&self) -> u64 {
        self.asleep
    }

    /// Cores that wait for what is not seen, as a mask.
    pub(crate) fn blind(&self) -> u64 {
        self.blind
    }

    /// A core has loaded from a line.
    #[inline]
    pub(crate) fn looked(&mut self, core: usize, line: u64) {
        if !self.on {
            return;
        }
        self.blind &= !(1 << core);
        let looks = &mut self.looks[core];
        if looks.busy || looks.has(line) {
            return;
        }
        if looks.count == MOST {
            looks.busy = true;
            return;
        }
        looks.lines[looks.count] = line;
        looks.count += 1;
    }

    /// A core has done something else than look.
    #[inline]
    pub(crate) fn worked(&mut self, core: usize) {
        if self.on {
            self.blind &= !(1 << core);
            self.looks[core].busy = true;
        }
    }

    /// A core pauses.
    pub(crate) fn pause(&mut self, core: usize) -> Waits {
        if !self.on {
            return Waits::Perhaps;
        }
        let looks = &mut self.looks[core];
        if std::mem::take(&mut looks.busy) {
            (looks.count, looks.counted) = (0, 0);
            return Waits::Perhaps;
        }
        let same = looks.turn();
        if looks.count == 0 {
            self.blind |= 1 << core;
            return Waits::Blindly;
        }
        if same {
            self.asleep |= 1 << core;
            return Waits::Asleep;
        }
        looks.count = 0;
        Waits::Perhaps
    }

    /// If no core of this mask does anything but wait, all of them are stepped.
    pub(crate) fn let_one_go_on(&mut self, alive: u64) {
        if alive & !self.asleep & !self.blind == 0 {
            self.wake(alive);
        }
    }

    /// A core takes a line to store to it; those that sleep for it and wake, as a mask.
    #[inline]
    pub(crate) fn taken(&mut self, core: usize, line: u64) -> u64 {
        let mut others = self.asleep & !(1 << core);
        let mut woken = 0;
        while others != 0 {
            let other = others.trailing_zeros() as usize;
            others &= others - 1;
            if self.looks[other].has(line) {
                woken |= 1 << other;
            }
        }
        self.wake(woken);
        woken
    }

    /// These cores sleep no longer.
    pub(crate) fn wake(&mut self, cores: u64) {
        let mut left = cores & self.asleep;
        self.asleep &= !cores;
        while left != 0 {
            self.looks[left.trailing_zeros() as usize].count = 0;
            left &= left - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_sleeps_for_the_lines_that_it_has_looked_at_since_it_paused() {
        let mut spins = Spins::default();
        spins.start(3, true);
        spins.looked(0, 7);
        assert_eq!(spins.pause(0), Waits::Perhaps, "what it did before is not known");
        assert_eq!(spins.pause(0), Waits::Blindly);
        let look = |spins: &mut Spins| [7, 8, 7].into_iter().for_each(|line| spins.looked(0, line));
        look(&mut spins);
        assert_eq!(spins.pause(0), Waits::Perhaps, "that may have been for something else");
        look(&mut spins);
        assert_eq!((spins.blind(), spins.pause(0)), (0, Waits::Asleep));
        assert_eq!((spins.taken(1, 9), spins.taken(1, 8), spins.asleep()), (0, 1, 0));
        assert_eq!(spins.pause(0), Waits::Blindly, "it has not looked again");
        (0..5).for_each(|line| spins.looked(0, line));
        assert_eq!(spins.pause(0), Waits::Perhaps, "too many");
        spins.looked(0, 7);
        spins.worked(0);
        assert_eq!(spins.pause(0), Waits::Perhaps);
    }

    #[test]
    fn when_all_wait_all_are_stepped() {
        let mut spins = Spins::default();
        spins.start(2, true);
        for _ in 0..3 {
            spins.looked(0, 7);
            spins.pause(0);
        }
        assert_eq!(spins.asleep(), 1);
        spins.let_one_go_on(3);
        assert_eq!(spins.asleep(), 1, "the other one works");
        (0..2).for_each(|_| _ = spins.pause(1));
        spins.let_one_go_on(3);
        assert_eq!(spins.asleep(), 0);
    }

    #[test]
    fn one_core_alone_and_cores_by_chance_are_stepped() {
        for (programs, by_the_clock) in [(1, true), (2, false)] {
            let mut spins = Spins::default();
            spins.start(programs, by_the_clock);
            (0..3).for_each(|_| assert_eq!(spins.pause(0), Waits::Perhaps));
        }
    }
}
