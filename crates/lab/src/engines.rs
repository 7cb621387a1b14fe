//! Help texts about engines.

use perdura::EngineKind;

/// Why an engine that promises nothing after a power cut is refused for crash tests.
pub(crate) fn nothing_to_test(name: &str) -> String {
    format!(
        "the engine '{name}' promises nothing for a power cut: there is nothing to test (--unsafe shows how it fails)"
    )
}

/// The help of an option for crash-consistent engines.
pub(crate) fn help() -> String {
    let engines = EngineKind::names_of(EngineKind::is_crash_consistent);
    format!("Engines: {engines}, or all; several with commas")
}
