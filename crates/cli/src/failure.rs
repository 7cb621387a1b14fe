//! Why a command ended early.

use std::io;
use std::panic::PanicHookInfo;
use std::path::Path;

/// The failure that `main` reports.
#[derive(Debug)]
pub enum Failure {
    /// One line for the user, with a remedy.
    Message(String),
    /// The same, for impossible arguments: as for an invalid command line.
    Usage(String),
    /// The reader of our output has closed it.
    BrokenPipe,
    /// The user pressed Ctrl-C; everything is closed.
    Interrupted,
}

/// A command's result.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A message.
    pub fn new(text: impl Into<String>) -> Self {
        Failure::Message(one_line(&text.into()))
    }

    /// An invalid command line or configuration file.
    pub fn usage(text: impl Into<String>) -> Self {
        Failure::Usage(one_line(&text.into()))
    }

    /// The system's refusal to read or write the file at `path`.
    pub fn io(path: &Path, error: &io::Error) -> Self {
        Failure::at(path, with_advice(error))
    }

    /// The failure of an operation on the file at `path`.
    pub fn at(path: &Path, error: impl std::fmt::Display) -> Self {
        let (path, error) = (path.display().to_string(), error.to_string());
        // Some errors name the file themselves.
        if error.starts_with(&path) {
            return Failure::new(error);
        }
        Failure::new(format!("{path}: {error}"))
    }
}

/// Errors may quote foreign text, including line breaks. The library's options are flags here: `Options::accept_weaker`
/// is `--accept-weaker`.
fn one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    while let Some((before, (option, after))) = line
        .split_once("`Options::")
        .and_then(|(before, rest)| Some((before, rest.split_once('`')?)))
    {
        line = format!("{before}`--{}`{after}", option.replace('_', "-"));
    }
    line
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::new(with_advice(&error)),
        }
    }
}

/// The system's error, with a remedy.
fn with_advice(error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "let this user access it, or give another path",
        io::ErrorKind::IsADirectory => "give the path of a file",
        io::ErrorKind::InvalidData => "give a text file",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space there, or write elsewhere"
        }
        _ => return error.to_string(),
    };
    format!("{error}; {advice}")
}

#[cfg(feature = "lab")]
impl From<perdura_workloads::Failure> for Failure {
    fn from(failure: perdura_workloads::Failure) -> Self {
        match failure {
            perdura_workloads::Failure::Stopped => Failure::Interrupted,
            other => Failure::new(other.to_string()),
        }
    }
}

impl From<perdura::Error> for Failure {
    fn from(error: perdura::Error) -> Self {
        Failure::new(error.to_string())
    }
}

impl From<perdura_server::ServeError> for Failure {
    fn from(error: perdura_server::ServeError) -> Self {
        Failure::new(error.to_string())
    }
}

#[cfg(feature = "lab")]
impl From<perdura_baselines::Error> for Failure {
    fn from(error: perdura_baselines::Error) -> Self {
        Failure::new(error.to_string())
    }
}

/// Prints a broken invariant of our own: one line, no backtrace.
pub fn own_fault(info: &PanicHookInfo<'_>) -> String {
    let place = info.location().map(|location| format!(" at {location}")).unwrap_or_default();
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = one_line(text.unwrap_or("no message"));
    format!("a fault in perdura itself{place}: {text}; please report it with the command used")
}
