//! Cores in spin loops: the lines that each has loaded since it last paused, and which cores sleep.
//!
//! A turn of a spin loop that has only loaded will load the same values until another core takes one of those lines
//! to store to it. So, scheduling by the clock, a core whose last two turns only loaded, and loaded the same lines,
//! need not be stepped: it sleeps until then. (Two turns, since the loads before the first pause may have been for
//! something else.) A core that has loaded nothing from the machine waits blindly, for something that the machine does
//! not see; it goes on with the core furthest behind among those that do not wait. When every core waits, all are
//! stepped: a sleeping core may wait for something other than the lines that it loads, it may count its turns, or it
//! may wait for ever, which is then detected.

/// The most lines that a sleeping core may have loaded in a turn.
const MOST: usize = 4;

/// The spinning of all cores.
#[derive(Default)]
pub(crate) struct Spins {
    /// Whether several cores take turns by the clock.
    on: bool,
    looks: Vec<TurnLoads>,
    /// Cores that sleep, and cores that wait blindly, as masks.
    asleep: u64,
    blind: u64,
}

/// The lines that a core has loaded since it last paused.
#[derive(Clone, Copy, Default)]
struct TurnLoads {
    lines: [u64; MOST],
    count: usize,
    /// The lines of the turn before; none if it did more than load.
    before: [u64; MOST],
    counted: usize,
    /// Whether it has done more than load up to `MOST` lines.
    busy: bool,
}

impl TurnLoads {
    fn has(&self, line: u64) -> bool {
        self.lines[..self.count].contains(&line)
    }

    /// Ends the turn. Returns whether it has loaded the same lines as the turn before.
    fn turn(&mut self) -> bool {
        let (lines, before) = (&self.lines[..self.count], &self.before[..self.counted]);
        let same = lines.len() == before.len() && lines.iter().all(|line| before.contains(line));
        (self.before, self.counted) = (self.lines, self.count);
        same
    }
}

/// How a core waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SpinWait {
    /// Its turn may have done more than wait: it is stepped.
    Perhaps,
    /// For something that the machine does not see.
    Blindly,
    /// For a line: it sleeps.
    Asleep,
}

impl Spins {
    /// `programs` programs are about to run.
    pub(crate) fn start(&mut self, programs: usize, by_the_clock: bool) {
        let looks = vec![TurnLoads { busy: true, ..TurnLoads::default() }; programs];
        *self = Spins { on: by_the_clock && programs > 1, looks, asleep: 0, blind: 0 };
    }

    /// Cores that sleep, as a mask.
    #[inline]
    pub(crate) fn asleep(&self) -> u64 {
        self.asleep
    }

    /// Cores that wait blindly, as a mask.
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

    /// A core has done something else than load.
    #[inline]
    pub(crate) fn worked(&mut self, core: usize) {
        if self.on {
            self.blind &= !(1 << core);
            self.looks[core].busy = true;
        }
    }

    /// A core pauses.
    pub(crate) fn pause(&mut self, core: usize) -> SpinWait {
        if !self.on {
            return SpinWait::Perhaps;
        }
        let looks = &mut self.looks[core];
        if std::mem::take(&mut looks.busy) {
            (looks.count, looks.counted) = (0, 0);
            return SpinWait::Perhaps;
        }
        let same = looks.turn();
        if looks.count == 0 {
            self.blind |= 1 << core;
            return SpinWait::Blindly;
        }
        if same {
            self.asleep |= 1 << core;
            return SpinWait::Asleep;
        }
        looks.count = 0;
        SpinWait::Perhaps
    }

    /// If all cores of this mask wait, steps all of them.
    pub(crate) fn let_one_go_on(&mut self, alive: u64) {
        if alive & !self.asleep & !self.blind == 0 {
            self.wake(alive);
        }
    }

    /// A core takes a line to store to it. Returns the cores that slept for it and now wake, as a mask.
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

    /// Wakes these cores.
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
        assert_eq!(spins.pause(0), SpinWait::Perhaps, "what it did before is not known");
        assert_eq!(spins.pause(0), SpinWait::Blindly);
        let look = |spins: &mut Spins| [7, 8, 7].into_iter().for_each(|line| spins.looked(0, line));
        look(&mut spins);
        assert_eq!(spins.pause(0), SpinWait::Perhaps, "that may have been for something else");
        look(&mut spins);
        assert_eq!((spins.blind(), spins.pause(0)), (0, SpinWait::Asleep));
        assert_eq!((spins.taken(1, 9), spins.taken(1, 8), spins.asleep()), (0, 1, 0));
        assert_eq!(spins.pause(0), SpinWait::Blindly, "it has not looked again");
        (0..5).for_each(|line| spins.looked(0, line));
        assert_eq!(spins.pause(0), SpinWait::Perhaps, "too many");
        spins.looked(0, 7);
        spins.worked(0);
        assert_eq!(spins.pause(0), SpinWait::Perhaps);
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
            (0..3).for_each(|_| assert_eq!(spins.pause(0), SpinWait::Perhaps));
        }
    }
}
