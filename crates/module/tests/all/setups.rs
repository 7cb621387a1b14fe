//! Setups that cannot work, or have gone wrong: each ends in a sentence, and loses nothing.

use crate::client::Value;
use crate::server::{Server, module, until};
use std::path::Path;
use std::process::Command;

#[test]
fn bad_setups_end_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = module().display().to_string();
    let used = Server::with_module(folder.path(), &[]);
    let pool = used.folder.join("node.pool").display().to_string();
    let load = ["--loadmodule", &library, "pool", "own.pool"];
    let other = ["--loadmodule", &library, "pool", &pool];
    for (options, part) in [
        (&["--loadmodule", &library][..], "'pool PATH' is missing"),
        (&["--loadmodule", &library, "pool", "a", "size", "1X"], "no number of bytes"),
        (&[load.as_slice(), &["--appendonly", "yes"]].concat(), "'appendonly yes'"),
        (&[load.as_slice(), &["--save", "60 1"]].concat(), "set 'save \"\"'"),
        (&[load.as_slice(), &["--databases", "20"]].concat(), "'databases 20'"),
        (&other, "the pool is in use"),
        (&[&load[..], &["--loadmodule", &library, "pool", "b"]].concat(), "is loaded already"),
        (&["--loadmodule", &library, "pool", "/no/folder/a.pool"], "/no/folder"),
        (&["--loadmodule", &library, "pool", "a.pool", "size", "1K"], "the size must be from"),
    ] {
        let log = Server::refused(folder.path(), options);
        assert!(log.contains(part), "{part}:\n{log}");
    }
    // Too late.
    let plain = Server::stock(folder.path());
    plain.client().run("set a 1");
    let loaded = plain.client().run(&format!("module load {library} pool late.pool"));
    assert!(format!("{loaded:?}").contains("Error"), "{loaded:?}");
    assert!(plain.logged().contains("has keys already"), "{}", plain.logged());
    // A pool of a node of a cluster.
    let mut node = Server::with_module(folder.path(), &["--cluster-enabled", "yes"]);
    let pool = node.folder.join("node.pool").display().to_string();
    node.kill();
    let foreign = ["--loadmodule", &library, "pool", &pool];
    let log = Server::refused(folder.path(), &foreign);
    assert!(log.contains("belongs to node"), "{log}");
    let log =
        Server::refused(folder.path(), &[&foreign[..], &["--cluster-enabled", "yes"]].concat());
    assert!(log.contains("and this is node"), "{log}");
}

/// A second module beside the first one, by MODULE LOAD: the first one goes on.
#[test]
fn a_second_module_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::with_module(folder.path(), &[]);
    let mut client = server.client();
    assert_eq!(client.run("set a 1").text(), "OK");
    let copy = folder.path().join("copy.so");
    std::fs::copy(module(), &copy).expect("a copy");
    for library in [module(), copy] {
        let loaded = client.run(&format!("module load {} pool other.pool", library.display()));
        assert!(format!("{loaded:?}").contains("Error"), "{loaded:?}");
    }
    assert!(format!("{:?}", client.run("module unload perdura")).contains("Error"));
    assert_eq!(server.logged().matches("is loaded already").count(), 2, "{}", server.logged());
    assert!(!server.folder.join("other.pool").exists(), "it has made a pool");
    assert_eq!(client.run("incr a").number(), 2);
}

/// A file of Redis's beside a new pool is neither loaded nor taken for one that is older than the pool, however often the
/// server is started.
#[test]
fn an_rdb_file_beside_a_new_pool_is_refused_each_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::stock(folder.path());
    let mut client = server.client();
    client.run("set a 1");
    client.run("save");
    server.kill();
    let file = server.folder.join("dump.rdb");
    let library = module().display().to_string();
    server.add_options(&["--loadmodule", &library, "pool", "node.pool", "size", "64M"]);
    for start in 1..=2 {
        server.spawn();
        assert!(server.ended(), "start {start}: it has refused nothing:\n{}", server.logged());
        assert_eq!(server.logged().matches("and the pool is new").count(), start);
        assert!(file.exists() && !server.folder.join("node.pool").exists(), "start {start}");
    }
    // Without it the server starts.
    std::fs::rename(&file, folder.path().join("kept")).expect("moved");
    server.restart();
    assert_eq!(server.client().run("dbsize").number(), 0);
    // Beside that pool it is older.
    server.kill();
    std::fs::rename(folder.path().join("kept"), &file).expect("moved");
    server.restart();
    assert_eq!(server.client().run("dbsize").number(), 0);
    assert!(server.folder.join("dump.rdb.aside").exists() && !file.exists());
}

/// A server that is too old for the module, by the program that `PERDURA_OLD_REDIS_SERVER` names.
#[test]
fn an_old_server_is_refused() {
    let Some(program) = std::env::var_os("PERDURA_OLD_REDIS_SERVER") else {
        println!("left out: PERDURA_OLD_REDIS_SERVER names no old server");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let port = crate::server::port().to_string();
    let output = Command::new(program)
        .args(["--port", &port, "--save", "", "--loadmodule"])
        .arg(module())
        .args(["pool", "node.pool"])
        .current_dir(folder.path())
        .output()
        .expect("an old server");
    let log = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success());
    assert!(log.contains("more functions that the module needs: it takes Redis 7.0"), "{log}");
    assert!(!folder.path().join("node.pool").exists(), "it has made a pool");
}

/// The node's own file of slots says that another node has a slot of which there are keys.
#[test]
fn keys_of_a_slot_of_another_node_are_told_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1500"];
    let mut own = Server::with_module(folder.path(), &options);
    let other = Server::with_module(folder.path(), &options);
    own.client().run("cluster addslotsrange 0 16383");
    own.client().run(&format!("cluster meet 127.0.0.1 {}", other.port));
    until("two nodes", || {
        other.client().run("cluster info").text().contains("cluster_slots_ok:16384")
    });
    let slot = own.client().run("cluster keyslot moved").number();
    for key in ["moved", "stays"] {
        until("a cluster", || {
            own.client().run(&format!("set {key} 1")) == Value::Text("OK".to_owned())
        });
    }
    let other_id = other.client().run("cluster myid").text();
    until("its file has the other node", || {
        std::fs::read_to_string(own.folder.join("nodes.conf"))
            .is_ok_and(|text| text.contains(&other_id))
    });
    own.kill();
    let file = own.folder.join("nodes.conf");
    let text = std::fs::read_to_string(&file).expect("its file");
    let lines = text.lines().map(|line| {
        let line = line.replace(" 0-16383", &format!(" 0-{} {}-16383", slot - 1, slot + 1));
        if line.starts_with(&other_id) { format!("{line} {slot}\n") } else { format!("{line}\n") }
    });
    std::fs::write(&file, lines.collect::<String>()).expect("written");
    own.restart();
    let told = format!("I have keys for slot {slot}, but the slot is assigned to another node");
    assert!(own.logged().contains(&told), "{}", own.logged());
    if own.logged().contains("Deleting keys in the slot") {
        // So do newer servers; the pool follows.
        assert_eq!(own.client().run("keys *"), Value::List(vec![Value::Text("stays".to_owned())]));
        return;
    }
    let mut client = own.client();
    assert_eq!(client.run(&format!("cluster countkeysinslot {slot}")).number(), 1);
    assert!(client.run("cluster nodes").text().contains(&format!("[{slot}-<-{other_id}]")));
    // An operator can take it back, with its keys.
    let id = client.run("cluster myid").text();
    client.run("cluster bumpepoch");
    assert_eq!(client.run(&format!("cluster setslot {slot} node {id}")).text(), "OK");
    until("it answers", || client.run("get moved") == Value::Text("1".to_owned()));
}

/// A small file system of its own, where the tests may make one.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new(bytes: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mount = folder.path().join("disk");
        std::fs::create_dir(&mount).expect("a folder");
        let image = folder.path().join("image");
        let ran = |program: &str, args: &[&str]| {
            Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
        };
        let text = |path: &Path| path.display().to_string();
        let is_made = ran("truncate", &["-s", bytes, &text(&image)])
            && ran("mkfs.ext4", &["-q", "-O", "^has_journal", &text(&image)])
            && ran("mount", &["-o", "loop", &text(&image), &text(&mount)]);
        is_made.then_some(Disk(folder))
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("disk")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

/// The disk is full before the pool is: clients are told, and nothing that was acknowledged is lost.
#[test]
fn a_full_disk_is_told() {
    let Some(disk) = Disk::new("128M") else {
        println!("left out: no file system can be made here");
        return;
    };
    let library = module().display().to_string();
    let log = Server::refused(&disk.path(), &["--loadmodule", &library, "pool", "a", "size", "8G"]);
    assert!(log.contains("no space for a file"), "{log}");
    let mut own = Server::with_pool(&disk.path(), "1G", &[]);
    let mut client = own.client();
    let value = "v".repeat(100_000);
    let mut count = 0;
    let why = loop {
        match client.ask(&["set", &format!("key:{count}"), &value]) {
            Ok(Value::Text(_)) => count += 1,
            Ok(Value::Error(why)) => break why,
            other => {
                // It must have said why.
                assert!(own.ended(), "{other:?}");
                break own.logged();
            }
        }
        assert!(count < 2000, "the disk is not full");
    };
    println!("{count} values, then: {}", why.lines().last().unwrap_or_default());
    assert!(count > 50, "only {count} values");
    assert!(why.contains("space") || why.contains("OOM"), "{why}");
    own.kill();
    own.restart();
    let mut client = own.client();
    for number in 0..count {
        assert_eq!(client.run(&format!("strlen key:{number}")).number(), 100_000, "{number}");
    }
    // Deletions make room.
    for number in 0..20 {
        assert_eq!(client.run(&format!("del key:{number}")).number(), 1);
    }
    until("there is room", || {
        client.run(&format!("set again {value}")) == Value::Text("OK".to_owned())
    });
    own.kill();
}
