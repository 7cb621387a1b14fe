//! One image of a machine with a mechanism in hardware: when the power was cut, and where again during recovery.

use perdura_machine::Event;
use std::fmt;
use std::str::FromStr;

/// Where the power is cut. On a command line `812.2/17/3`: at the second arrival before event 812, and then in the
/// mechanism's recovery after 17 stores, and after 3 in the one that began after that; `812.0` is after event 812.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The event, or the one that follows the arrival.
    pub event: u64,
    /// Which arrival, from 1; 0: after the event.
    pub arrival: u32,
    /// After how many of its stores recovery is cut short, the first and the second time.
    pub recoveries: [Option<u64>; 2],
}

impl Place {
    /// At an event or arrival, with complete recovery.
    pub fn of(event: &Event) -> Self {
        Place { event: event.number, arrival: event.arrival, recoveries: [None; 2] }
    }

    /// Whether it is at this event or arrival.
    pub fn is_at(&self, event: &Event) -> bool {
        (self.event, self.arrival) == (event.number, event.arrival)
    }

    /// In the form of [`Machine::cut`](perdura_machine::Machine::cut).
    pub(crate) fn recoveries(&self) -> Vec<u64> {
        self.recoveries.into_iter().flatten().collect()
    }

    /// A number that identifies it.
    pub(crate) fn number(&self) -> u64 {
        let stores = self.recoveries.map(|stores| stores.map_or(0, |stores| stores + 1));
        self.event ^ u64::from(self.arrival) << 40 ^ stores[0] << 24 ^ stores[1].rotate_left(52)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.event, self.arrival)?;
        self.recoveries().iter().try_for_each(|stores| write!(f, "/{stores}"))
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' is no place: write EVENT.ARRIVAL/STORES/STORES, as 812.2/17");
        let mut parts = text.split('/');
        let at = parts.next().and_then(|at| at.split_once('.'));
        let at = at.and_then(|(event, arrival)| Some((event.parse().ok()?, arrival.parse().ok()?)));
        let (event, arrival) = at.ok_or_else(wrong)?;
        let mut recoveries = [None; 2];
        for part in &mut recoveries {
            *part = parts.next().map(str::parse).transpose().map_err(|_| wrong())?;
        }
        match parts.next() {
            None if event > 0 => Ok(Place { event, arrival, recoveries }),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_what_is_printed() {
        for text in ["812.0", "812.2", "1.0/17", "9.1/0/3"] {
            assert_eq!(text.parse::<Place>().map(|place| place.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "812", "0.0", "8.x", "8.1/", "8.1/1/2/3", "8.-1", "8.1/x"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
