//! Names the shared library in itself (its SONAME), so that programs load only a compatible one.

/// The ABI's number: the major version, or `0.MINOR` before 1.0.
fn abi() -> String {
    let part = |name: &str| std::env::var(name).expect("cargo sets it");
    match part("CARGO_PKG_VERSION_MAJOR").as_str() {
        "0" => format!("0.{}", part("CARGO_PKG_VERSION_MINOR")),
        major => major.to_owned(),
    }
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libperdura_c.so.{}", abi());
    }
}
