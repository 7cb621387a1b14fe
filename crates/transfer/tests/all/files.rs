//! Files that exist, are missing, are in use, or have no room.

use crate::common::*;
use perdura::draft::DraftError;
use perdura::{EngineKind, Options};
use perdura_transfer::export::plan;
use perdura_transfer::{
    Error, Form, Going, Target, contents, copy, copy_pages, export_file, import,
};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::tempdir;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_destination_is_replaced_if_it_is_asked_for_and_not_in_use() {
    let folder = tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let pool = create(&old, EngineKind::Redo);
    fill_collections(&pool);
    drop(pool);
    fs::write(&new, "something else").expect("a file");
    let copied = |target: &Target| {
        let pages = copy_pages(&source(&old), target, &mut on);
        let contents = copy(&source(&old), target, &mut on);
        assert_eq!(pages.is_ok(), contents.is_ok(), "{pages:?} {contents:?}");
        contents
    };
    let error = copied(&Target::new(&new)).expect_err("a file");
    assert!(matches!(error, Error::Draft(DraftError::Exists(_))), "{error}");
    assert_eq!(fs::read_to_string(&new).expect("the file"), "something else");
    let forced = Target::new(&new).force(true);
    copied(&forced).expect("a copy");
    let pool = Options::new().open(&new).expect("a pool");
    let error = copied(&forced).expect_err("in use");
    assert!(matches!(error, Error::Draft(DraftError::InUse(_))), "{error}");
    check_collections(&pool);
    drop(pool);
    let error = copied(&Target::new(&old).force(true)).expect_err("itself");
    assert!(matches!(error, Error::Draft(DraftError::InUse(_))), "{error}");
    let error = copied(&Target::new(folder.path().join("none/new"))).expect_err("no folder");
    assert!(error.to_string().contains("create the directory first"), "{error}");
    let error = copied(&Target::new(folder.path()).force(true)).expect_err("a folder");
    assert!(error.to_string().contains("not a regular file"), "{error}");
    assert_eq!(names(folder.path()), ["new", "old"]);
}

#[test]
fn a_source_need_not_be_writable_and_must_not_be_in_use() {
    let folder = tempdir().expect("a folder");
    let home = folder.path().join("home");
    fs::create_dir(&home).expect("a folder");
    let (old, new) = (home.join("old"), folder.path().join("new"));
    let pool = create(&old, EngineKind::Redo);
    fill_collections(&pool);
    let error = contents::open(&old).err().expect("in use").to_string();
    assert!(error.contains("the pool is in use"), "{error}");
    drop(pool);
    fs::set_permissions(&old, fs::Permissions::from_mode(0o400)).expect("permissions");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o500)).expect("permissions");
    let source = source(&old);
    assert!(Options::new().open(&old).is_err(), "a pool that is being read was opened");
    copy(&source, &Target::new(&new), &mut on).expect("a copy");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).expect("permissions");
    check_collections(&Options::new().open(&new).expect("a pool"));
    let error = contents::open(&folder.path().join("none")).err().expect("none").to_string();
    assert!(error.contains("no such file"), "{error}");
    let error = contents::open(folder.path()).err().expect("a folder").to_string();
    assert!(error.contains("a directory"), "{error}");
}

#[test]
fn stopped_copies_leave_nothing() {
    let folder = tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let pool = create(&old, EngineKind::Redo);
    fill_collections(&pool);
    fill_keyspace(&pool);
    drop(pool);
    let mut calls = 0;
    let mut stop = |_: u64| {
        calls += 1;
        calls < 2
    };
    let error = copy(&source(&old), &Target::new(&new), &mut stop).expect_err("stopped");
    assert!(matches!(error, Error::Stopped), "{error}");
    let error = copy_pages(&source(&old), &Target::new(&new), &mut |_| false);
    assert!(error.is_ok() || matches!(error, Err(Error::Stopped)));
    let _ = fs::remove_file(&new);
    let target = Target::new(&new).size(Some(8 << 20));
    let error = import(&mut commands().as_slice(), &target, &mut |_| false).expect_err("stopped");
    assert!(matches!(error, Error::Stopped), "{error}");
    assert_eq!(names(folder.path()), ["old"]);
}

#[test]
fn leftovers_of_killed_copies_are_removed() {
    let folder = tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let pool = create(&old, EngineKind::Redo);
    fill_collections(&pool);
    drop(pool);
    fs::write(folder.path().join(".new.perdura-part"), "half").expect("a file");
    fs::write(folder.path().join("..new.perdura-part.perdura-new"), "less").expect("a file");
    copy(&source(&old), &Target::new(&new), &mut on).expect("a copy");
    assert_eq!(names(folder.path()), ["new", "old"]);
}

/// The work of a child of the tests below: old pool, new file.
const CHILD: &str = "PERDURA_TEST_TRANSFER";

/// Runs this program again, with one of the tests here, on a folder.
fn child(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture"]).env(CHILD, folder);
    command
}

#[test]
fn a_kill_leaves_no_part_under_the_name() {
    let folder = tempdir().expect("a folder");
    let pool = create(&folder.path().join("old"), EngineKind::Redo);
    fill_collections(&pool);
    fill_keyspace(&pool);
    drop(pool);
    for what in ["copy", "pages", "export", "import"] {
        let mut child = child("files::works_slowly", folder.path());
        let mut child = child.env("WHAT", what).stdout(Stdio::piped()).spawn().expect("a child");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let begun = lines.any(|line| line.expect("a line").contains("under way"));
        assert!(begun, "{what} has ended");
        child.kill().expect("SIGKILL");
        child.wait().expect("it is gone");
        let left = names(folder.path());
        assert!(left.iter().any(|name| name.starts_with('.')), "{what}: nothing was begun");
        assert!(!left.contains(&"new".to_owned()), "{what}: a part has the name");
        // The next one begins anew.
        work(what, folder.path(), &mut on).expect("a second attempt");
        assert_eq!(names(folder.path()), ["new", "old"], "{what}");
        fs::remove_file(folder.path().join("new")).expect("the file");
    }
}

fn work(what: &str, folder: &Path, going: &mut Going<'_>) -> Result<(), Error> {
    let (old, new) = (folder.join("old"), folder.join("new"));
    let target = Target::new(&new);
    match what {
        "copy" => copy(&source(&old), &target, going).map(drop),
        "pages" => copy_pages(&source(&old), &target, going).map(drop),
        "export" => {
            let source = source(&old);
            let (roots, form) = plan(&source, Some(Form::Json))?;
            export_file(&source, (&roots, form), (&new, false), going).map(drop)
        }
        _ => {
            let target = target.size(Some(8 << 20));
            import(&mut commands().as_slice(), &target, going).map(drop)
        }
    }
}

/// Only a child has something to do here.
#[test]
fn works_slowly() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let what = std::env::var("WHAT").expect("what to do");
    let mut slowly = |_: u64| {
        println!("under way");
        std::thread::sleep(Duration::from_secs(20));
        true
    };
    work(&what, Path::new(&folder), &mut slowly).expect("it goes well");
}

#[test]
fn a_full_disk_leaves_nothing() {
    let folder = tempdir().expect("a folder");
    let script = "mount -t tmpfs -o size=5m none \"$0\" || exit 77; \
                  exec \"$1\" --exact files::on_a_small_disk --nocapture";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .args([folder.path(), &std::env::current_exe().expect("this program")])
        .env(CHILD, folder.path())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped: no namespace of its own: {error}"),
    };
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if !output.status.success() {
        assert_ne!(output.status.code(), Some(101), "{said:?}");
        return eprintln!("skipped: no file system of its own: {said:?}");
    }
    assert!(said[0].contains("small disk: done"), "{said:?}");
}

/// Only the child of the test above has something to do here.
#[test]
fn on_a_small_disk() {
    let Some(disk) = std::env::var_os(CHILD) else { return };
    let (disk, elsewhere) = (Path::new(&disk), tempdir().expect("a folder"));
    let pool = create(&elsewhere.path().join("old"), EngineKind::Redo);
    fill_collections(&pool);
    let mut handle = pool.session().expect("a session");
    for number in 0..40 {
        let value = vec![b'v'; 100_000];
        let text = format!("*3\r\n$3\r\nSET\r\n$2\r\n{number:02}\r\n$100000\r\n");
        let stream = [text.as_bytes(), &value, b"\r\n"].concat();
        perdura_server::transfer::import(&mut stream.as_slice(), &mut handle, &mut on)
            .expect("a key more");
    }
    drop((handle, pool));
    let (old, new) = (source(&elsewhere.path().join("old")), disk.join("new"));
    fs::write(disk.join("filler"), vec![1; 3 << 20]).expect("room");
    let full = |error: Error| {
        let text = error.to_string();
        assert!(text.contains("No space left") || text.contains("no space for"), "{text}");
        assert_eq!(names(disk), ["filler"], "{text}");
    };
    full(copy(&old, &Target::new(&new), &mut on).expect_err("no room"));
    full(copy_pages(&old, &Target::new(&new), &mut on).expect_err("no room"));
    let (roots, form) = plan(&old, Some(Form::Resp)).expect("data");
    full(export_file(&old, (&roots, form), (&new, false), &mut on).expect_err("no room"));
    fs::remove_file(disk.join("filler")).expect("the filler");
    println!("small disk: done");
}
