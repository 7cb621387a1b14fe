//! Notifies the service manager (systemd) that the server is ready, ends, or is alive: datagrams to the socket that
//! `NOTIFY_SOCKET` names. Without that variable nothing is sent.

use crate::stats::Stats;
use std::env;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The socket of the service manager, if there is one.
pub(crate) struct Notifier {
    socket: Option<UnixDatagram>,
    watchdog: Option<Watchdog>,
}

/// How often the service manager wants to hear that the server is alive.
struct Watchdog {
    /// Half of the time after which the service manager gives the server up.
    every: Duration,
    last: Mutex<Beat>,
}

struct Beat {
    time: Instant,
    /// How often each thread had looked for something to do.
    looks: Vec<u64>,
}

impl Notifier {
    /// As the environment says.
    pub(crate) fn from_environment() -> Self {
        let variable = |name| env::var(name).ok();
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|name| connect(Path::new(&name)).ok());
        let micros = variable("WATCHDOG_USEC").and_then(|micros| micros.parse().ok());
        // The variable may be meant for a parent of this process.
        let is_ours =
            variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        Notifier::new(socket, micros.filter(|_| is_ours))
    }

    fn new(socket: Option<UnixDatagram>, watchdog_micros: Option<u64>) -> Self {
        let micros = watchdog_micros.filter(|micros| *micros > 0);
        let watchdog = micros.map(|micros| Watchdog {
            every: Duration::from_micros(micros / 2),
            last: Mutex::new(Beat { time: Instant::now(), looks: Vec::new() }),
        });
        Notifier { socket, watchdog }
    }

    fn send(&self, state: &str) {
        if let Some(socket) = &self.socket {
            // A service manager that does not listen is no reason to end.
            let _ = socket.send(state.as_bytes());
        }
    }

    /// Clients are served from now on.
    pub(crate) fn ready(&self) {
        self.send("READY=1");
    }

    /// The server ends.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Says that the server is alive, if that is due and every thread has worked since the last time. To be called
    /// often.
    pub(crate) fn beat(&self, stats: &[Stats]) {
        self.beat_at(Instant::now(), || stats.iter().map(|one| one.looks.total()).collect());
    }

    fn beat_at(&self, now: Instant, looks: impl FnOnce() -> Vec<u64>) {
        let Some(watchdog) = &self.watchdog else { return };
        let mut last = watchdog.last.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(last.time) < watchdog.every {
            return;
        }
        let looks = looks();
        let has_worked = |thread: usize| last.looks.get(thread) != looks.get(thread);
        if (0..looks.len()).all(has_worked) {
            self.send("WATCHDOG=1");
            *last = Beat { time: now, looks };
        }
    }
}

/// A socket that sends to `name`: a path, or with `@` a name of Linux's own.
fn connect(name: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    // A full socket must not hold the server up.
    socket.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    if let Some(name) = name.to_str().and_then(|name| name.strip_prefix('@')) {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        socket.connect_addr(&address)?;
        return Ok(socket);
    }
    socket.connect(name)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The datagram that arrived.
    fn heard(socket: &UnixDatagram) -> Option<String> {
        let mut bytes = [0; 64];
        let len = socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..len]).into_owned())
    }

    #[test]
    fn states_arrive_at_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let listens = UnixDatagram::bind(&path).unwrap();
        listens.set_nonblocking(true).unwrap();
        let notifier = Notifier::new(Some(connect(&path).unwrap()), None);
        notifier.ready();
        notifier.beat(&[Stats::default()]);
        notifier.stopping();
        assert_eq!(heard(&listens).as_deref(), Some("READY=1"));
        assert_eq!(heard(&listens).as_deref(), Some("STOPPING=1"));
        assert_eq!(heard(&listens), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_name_of_linux_s_own_is_connected_to() {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("perdura-test-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let listens = UnixDatagram::bind_addr(&address).unwrap();
        let socket = connect(Path::new(&format!("@{name}"))).unwrap();
        Notifier::new(Some(socket), None).ready();
        assert_eq!(heard(&listens).as_deref(), Some("READY=1"));
        assert!(connect(Path::new("/there/is/no/socket")).is_err());
    }

    #[test]
    fn a_thread_that_is_stuck_is_not_called_alive() {
        let (here, there) = UnixDatagram::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let notifier = Notifier::new(Some(there), Some(2_000_000));
        let start = Instant::now();
        for (seconds, looks, told) in [
            (0, [1, 1], false),
            (2, [1, 1], true),
            (4, [2, 2], true),
            (6, [3, 2], false),
            (7, [4, 3], true),
        ] {
            notifier.beat_at(start + Duration::from_secs(seconds), || looks.to_vec());
            assert_eq!(heard(&here).is_some(), told, "after {seconds} s");
        }
    }
}
