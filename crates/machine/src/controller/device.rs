//! A device: channels between which lines are interleaved.

use super::channel::{BankRow, Channel};
use super::inside::Module;
use super::stats::{DeviceCounts, DeviceStats, WearStats};
use super::wear::Wear;
use crate::Ps;
use crate::config::{ControllerConfig, Device as Config, Energy};

enum DevicePorts {
    Banks(Vec<Channel>),
    Inside(Vec<Module>),
}

/// A device with the queues in front of it.
pub(super) struct Device {
    ports: DevicePorts,
    channels: u64,
    /// Successive lines in a channel, and in a row of a bank, as shifts.
    interleave: u32,
    row: u32,
    banks: u64,
    energy: Option<Energy>,
    block_bytes: u64,
    /// For plain banks; modules count their own.
    wear: Option<Wear>,
}

impl Device {
    pub(super) fn new(controller: &ControllerConfig, config: &Config, wears: bool) -> Self {
        let channels = 0..config.channels;
        let ports = match &config.inside {
            Some(inside) => DevicePorts::Inside(
                channels.map(|_| Module::new(controller, config, inside)).collect(),
            ),
            None => {
                DevicePorts::Banks(channels.map(|_| Channel::new(controller, config)).collect())
            }
        };
        Device {
            ports,
            channels: config.channels as u64,
            interleave: config.interleave_bytes.trailing_zeros() - 6,
            row: config.row_bytes.trailing_zeros() - 6,
            banks: config.banks as u64,
            energy: config.energy,
            block_bytes: config.inside.as_ref().map_or(64, |inside| inside.block_bytes),
            wear: (wears && config.inside.is_none()).then(|| Wear::new(64)),
        }
    }

    /// See [`Channel::count_sent`].
    pub(super) fn count_sent(&mut self) {
        if let DevicePorts::Banks(all) = &mut self.ports {
            all.iter_mut().for_each(Channel::count_sent);
        }
    }

    #[inline]
    fn locate(&self, line: u64) -> (usize, BankRow) {
        let channels = self.channels;
        let (channel, local) = if channels == 1 {
            (0, line)
        } else {
            let chunk = line >> self.interleave;
            let within = line & ((1 << self.interleave) - 1);
            ((chunk % channels) as usize, (chunk / channels) << self.interleave | within)
        };
        let row = local >> self.row;
        let (bank, row) = if self.banks.is_power_of_two() {
            (row & (self.banks - 1), row >> self.banks.trailing_zeros())
        } else {
            (row % self.banks, row / self.banks)
        };
        (channel, BankRow { bank: bank as usize, row })
    }

    /// Reads a line. Returns when it has left the bus.
    #[inline]
    pub(super) fn read(&mut self, line: u64, now: Ps) -> Ps {
        let (channel, place) = self.locate(line);
        match &mut self.ports {
            DevicePorts::Banks(all) => all[channel].read(line, place, 1, now).0,
            DevicePorts::Inside(all) => all[channel].read(line, now),
        }
    }

    /// As [`read`](Self::read), of a line that no program waits for.
    pub(super) fn read_in_background(&mut self, line: u64, now: Ps) -> Ps {
        let (channel, place) = self.locate(line);
        match &mut self.ports {
            DevicePorts::Banks(all) => all[channel].read_in_background(line, place, now),
            DevicePorts::Inside(all) => all[channel].read(line, now),
        }
    }

    /// Reads `lines` lines from `first` on, the line `wanted` before the others. Returns when that
    /// one and when all have left the bus.
    pub(super) fn read_block(&mut self, first: u64, lines: u64, wanted: u64, now: Ps) -> (Ps, Ps) {
        let (mut early, mut end) = (Ps(0), now);
        let run = self.run(lines);
        // The piece with the wanted line goes first.
        let pieces = lines / run;
        let ahead = (wanted - first) / run;
        for i in 0..pieces {
            let start = first + (ahead + i) % pieces * run;
            let (channel, place) = self.locate(start);
            match &mut self.ports {
                DevicePorts::Banks(all) => {
                    let (one, last) = all[channel].read(start, place, run, now);
                    if i == 0 {
                        early = one;
                    }
                    end = end.max(last);
                }
                DevicePorts::Inside(all) => {
                    let module = &mut all[channel];
                    if i == 0 {
                        early = module.read(wanted, now);
                        end = end.max(early);
                    }
                    for line in (start..start + run).filter(|&line| line != wanted) {
                        end = end.max(module.read(line, now));
                    }
                }
            }
        }
        (early, end)
    }

    /// Lines of a block that are neighbours in a row of a channel.
    fn run(&self, lines: u64) -> u64 {
        let row = 1 << self.row;
        let chunk = if self.channels == 1 { row } else { row.min(1 << self.interleave) };
        lines.min(chunk)
    }

    /// Writes a block at once.
    pub(super) fn fill_block(&mut self, first: u64, lines: u64, now: Ps) {
        let run = self.run(lines);
        for start in (first..first + lines).step_by(run as usize) {
            let (channel, place) = self.locate(start);
            if let DevicePorts::Banks(all) = &mut self.ports {
                all[channel].fill(place, run, now);
            }
        }
    }

    /// Hands a line over. Returns when it is in the queue, and when it is durable. It comes at `from`, `now` or later:
    /// earlier accesses to plain banks do not wait for it.
    #[inline]
    pub(super) fn write(&mut self, line: u64, now: Ps, from: Ps) -> (Ps, Ps) {
        let (channel, place) = self.locate(line);
        match &mut self.ports {
            DevicePorts::Banks(all) => {
                let (accepted, durable, new) = all[channel].write(line, place, now, from);
                if new && let Some(wear) = &mut self.wear {
                    wear.count(line);
                }
                (accepted, durable)
            }
            DevicePorts::Inside(all) => {
                let accepted = all[channel].write(line, from);
                (accepted, accepted)
            }
        }
    }

    /// Sends everything to the media. Returns when it is there.
    pub(super) fn settle(&mut self, now: Ps) -> Ps {
        match &mut self.ports {
            DevicePorts::Banks(all) => all.iter_mut().map(Channel::settle).fold(now, Ps::max),
            DevicePorts::Inside(all) => {
                all.iter_mut().map(|module| module.settle(now)).fold(now, Ps::max)
            }
        }
    }

    pub(super) fn reset_stats(&mut self) {
        match &mut self.ports {
            DevicePorts::Banks(all) => {
                all.iter_mut().for_each(|one| one.counts = DeviceCounts::default())
            }
            DevicePorts::Inside(all) => {
                for module in all {
                    module.counts = DeviceCounts::default();
                    module.wear.clear();
                }
            }
        }
        if let Some(wear) = &mut self.wear {
            wear.clear();
        }
    }

    pub(super) fn stats(&self) -> DeviceStats {
        let mut stats = DeviceStats::default();
        let mut wear = WearStats::default();
        match &self.ports {
            DevicePorts::Banks(all) => all.iter().for_each(|channel| stats.add(&channel.counts)),
            DevicePorts::Inside(all) => {
                for module in all {
                    stats.add(&module.counts);
                    module.wear.add_to(&mut wear);
                }
                stats.wear = Some(wear);
            }
        }
        if let Some(own) = &self.wear {
            own.add_to(&mut wear);
            stats.wear = Some(wear);
        }
        stats.read_bytes = stats.reads * 64;
        stats.written_bytes = stats.writes * 64;
        let media_bytes = match self.ports {
            DevicePorts::Banks(_) => (stats.writes - stats.coalesced) * 64,
            DevicePorts::Inside(_) => stats.media_writes * self.block_bytes,
        };
        if stats.writes > 0 {
            stats.write_amplification = media_bytes as f64 / stats.written_bytes as f64;
        }
        stats.energy_nj = self.energy.map(|Energy { read_nj, write_nj }| {
            let read = stats.reads - stats.forwarded;
            let written = stats.writes - stats.coalesced;
            read as f64 * read_nj + written as f64 * write_nj
        });
        stats
    }
}
