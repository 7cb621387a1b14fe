//! The program's log: lines on standard error, for people or as JSON.
//!
//! No line has a password, a key or a value in it. Events that clients can cause at will are logged within a
//! [`Quota`].

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing_subscriber::filter::LevelFilter;

/// Which events are logged: those of a level, and of the more serious ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// Events that end the service.
    Error,
    /// Events that an operator should look at: refused clients, wrong passwords, a full disk.
    Warn,
    /// The start, the end, exports, slow commands.
    #[default]
    Info,
    /// Connections, checkpoints, space that goes back to the file system.
    Debug,
    /// All there is.
    Trace,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level, message, fields.
    #[default]
    Text,
    /// An object of JSON.
    Json,
}

/// Gives an enumeration its names, in one list.
macro_rules! named {
    ($name:ident: $($variant:ident $text:literal),+) => {
        impl $name {
            /// The names of all.
            pub const NAMES: &'static [&'static str] = &[$($text),+];
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok($name::$variant),)+
                    _ => Err(format!("'{text}' is not one of {}", Self::NAMES.join(", "))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($name::$variant => $text,)+
                })
            }
        }
    };
}

pub(crate) use named;

named!(LogLevel: Error "error", Warn "warn", Info "info", Debug "debug", Trace "trace");
named!(LogFormat: Text "text", Json "json");

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        }
    }
}

/// Logs to standard error from now on, in the whole process. The server logs by the crate `tracing`: a program that has
/// a subscriber of its own does not call this. False, and nothing changes, if there is one already.
pub fn start_logging(level: LogLevel, format: LogFormat) -> bool {
    let lines = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(level))
        .with_target(false)
        .with_ansi(false)
        // A standard error that is closed is no reason to end.
        .log_internal_errors(false)
        .with_writer(io::stderr);
    let done = match format {
        LogFormat::Text => tracing::subscriber::set_global_default(lines.finish()),
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(false);
            tracing::subscriber::set_global_default(lines.with_span_list(false).finish())
        }
    };
    done.is_ok()
}

/// Logs a warning of the program that runs the server.
pub fn log_warning(text: &str) {
    tracing::warn!("{text}");
}

/// Lines in one second that one kind of event may have, unless it has fewer.
const MOST: u32 = 10;

/// How often one kind of event is logged, for events that clients can cause at will.
pub(crate) struct Quota {
    most: u32,
    period: Duration,
    used: Mutex<Used>,
}

impl Default for Quota {
    fn default() -> Self {
        Quota { most: MOST, period: Duration::from_secs(1), used: Mutex::default() }
    }
}

#[derive(Default)]
struct Used {
    since: Option<Instant>,
    lines: u32,
    suppressed: u64,
}

impl Quota {
    /// Of an event that lasts: one line in each `period`.
    pub(crate) fn one_in(period: Duration) -> Self {
        Quota { most: 1, period, used: Mutex::default() }
    }

    /// Whether one more is logged: with how many were not, since the last one that was.
    pub(crate) fn take(&self) -> Option<u64> {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> Option<u64> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *used.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= self.period {
            (used.since, used.lines) = (Some(now), 0);
        }
        if used.lines == self.most {
            used.suppressed += 1;
            return None;
        }
        used.lines += 1;
        Some(std::mem::take(&mut used.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_has_few_lines_and_is_counted() {
        let (quota, start) = (Quota::default(), Instant::now());
        let logged = (0..100).filter_map(|_| quota.take_at(start)).count();
        assert_eq!(logged, MOST as usize);
        let later = start + Duration::from_secs(1);
        assert_eq!(quota.take_at(later), Some(u64::from(100 - MOST)));
        assert_eq!(quota.take_at(later), Some(0));
    }

    #[test]
    fn names_lead_back() {
        for name in LogLevel::NAMES {
            assert_eq!(name.parse::<LogLevel>().unwrap().to_string(), *name);
        }
        assert_eq!("json".parse(), Ok(LogFormat::Json));
        assert_eq!("loud".parse::<LogFormat>(), Err("'loud' is not one of text, json".to_owned()));
        assert_eq!(LogLevel::default().to_string(), "info");
    }
}
