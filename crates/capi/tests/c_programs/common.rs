//! C programs: compiled with the system's compiler, and linked with the library that cargo has
//! built for this very test.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a program gets the library.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Link {
    Shared,
    Static,
}

/// The libraries that a static library of Rust is linked with (`rustc --print native-static-libs`).
const NATIVE: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// The shared library's own name, which a program looks for when it starts.
pub(crate) fn soname() -> String {
    match env!("CARGO_PKG_VERSION_MAJOR") {
        "0" => concat!("libperdura_c.so.0.", env!("CARGO_PKG_VERSION_MINOR")).to_owned(),
        major => format!("libperdura_c.so.{major}"),
    }
}

/// A file that cargo has built of the library.
pub(crate) fn library(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let deps = test.parent().expect("tests are in a folder");
    // Cargo links a test's libraries from `deps`; a copy above it may be older.
    let places = [Some(deps), deps.parent()];
    let found = places.iter().flatten().map(|folder| folder.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| {
        panic!(
            "{name} is neither in {} nor above it: build it with `cargo build -p perdura-capi` \
             (with the profile and the target folder of this test)",
            deps.display()
        )
    })
}

/// The C compiler, or the C++ one.
pub(crate) fn compiler(variable: &str, otherwise: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| otherwise.into())
}

/// Compiles `source` to `program`.
pub(crate) fn compile(source: &Path, program: &Path, link: Link) {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(compiler("CC", "cc"));
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c11", "-g", "-O1", "-pthread"]);
    command.arg("-I").arg(crate_folder.join("include")).arg("-o").arg(program).arg(source);
    match link {
        Link::Shared => {
            let library = library(&format!("{DLL_PREFIX}perdura_c{DLL_SUFFIX}"));
            let folder = library.parent().expect("a library is in a folder");
            command.arg("-L").arg(folder).arg("-lperdura_c");
            // Installing it would make this link.
            let found = program.parent().expect("a program is in a folder");
            std::os::unix::fs::symlink(&library, found.join(soname())).expect("a link is made");
            command.arg(format!("-Wl,-rpath,{}", found.display()));
        }
        Link::Static => {
            command.arg(library("libperdura_c.a")).args(NATIVE);
        }
    }
    run(&mut command, "a C compiler is needed for this test: install one, or set CC");
}

/// A command that runs a compiled program.
pub(crate) fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    // Cargo's would find a library of an earlier build before the one that was linked.
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// Runs a command that must work, and returns its output.
pub(crate) fn run(command: &mut Command, advice: &str) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; {advice}"));
    let (out, err) = (output.stdout, output.stderr);
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&err));
    String::from_utf8(out).expect("UTF-8")
}
