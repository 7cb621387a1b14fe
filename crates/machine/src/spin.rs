//! Cores that spin: what each has looked at since it last paused, and which of them sleep.
//!
//! A turn of a spin loop that has only loaded will load the same until another core takes one of those lines
//! to store to it. So by the clock such a core need not be stepped: it sleeps until then. A core that has
//! looked at nothing here waits for something that the machine does not see; it goes on with the core
//! furthest behind of those that do not wait. When every core sleeps, all are stepped: they may count their
//! turns, or wait for ever, which is found out.

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
    /// It has done more than look at that many lines.
    busy: bool,
}

impl Looks {
    fn has(&self, line: u64) -> bool {
        self.lines[..self.count].contains(&line)
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
            looks.count = 0;
            return Waits::Perhaps;
        }
        if looks.count == 0 {
            self.blind |= 1 << core;
            return Waits::Blindly;
        }
        self.asleep |= 1 << core;
        Waits::Asleep
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
        (0..2).for_each(|_| [7, 8].into_iter().for_each(|line| spins.looked(0, line)));
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
    fn one_core_alone_and_cores_by_chance_are_stepped() {
        for (programs, by_the_clock) in [(1, true), (2, false)] {
            let mut spins = Spins::default();
            spins.start(programs, by_the_clock);
            (0..3).for_each(|_| assert_eq!(spins.pause(0), Waits::Perhaps));
        }
    }
}
