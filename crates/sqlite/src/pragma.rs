//! Pragmas that SQLite would answer in a way that is not true of a database in a pool.

use crate::connection::OpenDatabase;

/// The answer to a pragma.
pub(crate) enum Answer {
    /// SQLite's own.
    Pass,
    /// This one; SQLite does nothing.
    Text(String),
}

/// Answers the pragma.
pub(crate) fn answer(open: &mut OpenDatabase, name: &str, value: Option<&str>) -> Answer {
    match (name.to_ascii_lowercase().as_str(), value) {
        // SQLite's journal is only for rolling back, and in memory. Without one (`off`) a transaction can still be
        // rolled back as a whole, but no statement of it.
        ("journal_mode", Some(mode))
            if !["memory", "off"].contains(&mode.to_ascii_lowercase().as_str()) =>
        {
            Answer::Text("memory".to_owned())
        }
        ("locking_mode", Some(mode)) => {
            // Not taken back: another database of the connection may still be locked exclusively.
            if mode.eq_ignore_ascii_case("exclusive") {
                open.lock_exclusively();
            }
            Answer::Pass
        }
        ("perdura_kept_bytes", None) => Answer::Text(open.kept_bytes().to_string()),
        _ => Answer::Pass,
    }
}
