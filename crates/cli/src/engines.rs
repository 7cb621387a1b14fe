//! What help texts say of engines.

use perdura::EngineKind;

/// The help of an option for crash-consistent engines.
pub(crate) fn help() -> String {
    let engines = EngineKind::names_of(EngineKind::is_crash_consistent);
    format!("Engines: {engines}, or all; several with commas")
}
