//! The header agrees with the crate.

use std::path::Path;

const RENEW: &str = "PERDURA_RENEW_HEADER=1 cargo test -p perdura-capi --test header";

fn generated() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("cbindgen.toml");
    let bindings = cbindgen::Builder::new()
        .with_crate(folder)
        .with_config(config)
        .generate()
        .expect("the crate's bindings");
    let mut header = Vec::new();
    bindings.write(&mut header);
    // A function's safety in Rust is its preconditions in C.
    String::from_utf8(header).expect("UTF-8").replace("// # Safety\n", "// Pointers:\n")
}

#[test]
fn the_header_is_generated() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/perdura.h");
    let generated = generated();
    if std::env::var_os("PERDURA_RENEW_HEADER").is_some() {
        std::fs::write(&path, &generated).expect("the header is written");
    }
    let header = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(header == generated, "include/perdura.h is not what the crate says; renew it: {RENEW}");
}
