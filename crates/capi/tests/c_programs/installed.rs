//! The library as a system has it: its SONAME, and the files of `install`.

use crate::common::{compiler, library, program, run, soname};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Whether a tool that the tests do not need is there; says so if it is not.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        eprintln!("not run: {tool} is not installed");
    }
    found
}

#[test]
#[cfg(target_os = "linux")]
fn the_library_says_its_name() {
    if !has("readelf") {
        return;
    }
    let mut readelf = Command::new("readelf");
    readelf.arg("-d").arg(library("libperdura_c.so")).env("LC_ALL", "C");
    let told = run(&mut readelf, "it reads libraries");
    let names: Vec<_> = told.lines().filter(|line| line.contains("(SONAME)")).collect();
    let [name] = names[..] else { panic!("one name: {told}") };
    assert!(name.ends_with(&format!("[{}]", soname())), "{name}");
}

fn install(folder: &Path) -> Command {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(crate_folder.join("install"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("PREFIX", "/opt/perdura").env("DESTDIR", folder);
    command.env("FROM", library("libperdura_c.so").parent().expect("a folder"));
    command
}

#[test]
#[cfg(target_os = "linux")]
fn pkg_config_finds_the_installation() {
    let folder = tempfile::tempdir().unwrap();
    // Again over the same files: as with a later version.
    for _ in 0..2 {
        let told = run(&mut install(folder.path()), "it is a script");
        assert!(told.starts_with("installed Perdura "), "{told}");
    }
    let prefix = folder.path().join("opt/perdura");
    let version = env!("CARGO_PKG_VERSION");
    let mut files: Vec<_> = fs::read_dir(prefix.join("lib"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let full = format!("libperdura_c.so.{version}");
    assert_eq!(files, ["libperdura_c.a", "libperdura_c.so", &soname(), &full, "pkgconfig"]);

    if !has("pkg-config") {
        return;
    }
    let config = |arguments: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_LIBDIR", prefix.join("lib/pkgconfig"));
        command.env("PKG_CONFIG_SYSROOT_DIR", folder.path());
        let flags = run(command.args(arguments).arg("perdura"), "perdura.pc must be found");
        flags.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(config(&["--modversion"]), [version]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/c/counter.c");
    let path = folder.path().join("counter");
    let mut compile = Command::new(compiler("CC", "cc"));
    compile.arg("-o").arg(&path).arg(source).args(config(&["--cflags", "--libs"]));
    run(&mut compile, "a C compiler is needed for this test: install one, or set CC");
    let mut counter = program(&path);
    counter.env("LD_LIBRARY_PATH", prefix.join("lib")).arg(folder.path().join("c.pool"));
    assert_eq!(run(&mut counter, "it is an example"), "run 1\n");
    // It found the library by the name that it has for programs, and not otherwise.
    fs::remove_file(prefix.join("lib").join(soname())).unwrap();
    let failed = counter.output().unwrap();
    let text = String::from_utf8_lossy(&failed.stderr);
    assert!(!failed.status.success() && text.contains(&soname()), "{text}");
}

#[test]
fn an_installation_that_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |name: &str, value: &str, says: &str| {
        let output = install(folder.path()).env(name, value).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(says), "{text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is written");
    };
    fails("PREFIX", "here", "not an absolute path");
    fails("FROM", "/nowhere", "build it with cargo build");
}
