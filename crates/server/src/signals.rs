//! Signals that the process was started to ignore.

use std::fs;

/// Whether this process ignores `signal`, as far as the system says so: Linux does.
pub(crate) fn is_ignored(signal: i32) -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, signal))
}

/// Whether a process of this status does. Signals are the mask's bits, the first one its lowest.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::{SIGHUP, SIGPIPE, SIGTERM};

    #[test]
    fn the_mask_is_read() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, SIGHUP) && ignores(status, SIGPIPE));
        assert!(!ignores(status, SIGTERM) && !ignores(status, 0) && !ignores(status, 65));
        assert!(!ignores("", SIGHUP) && !ignores("SigIgn:\tx\n", SIGHUP));
    }
}
