//! The space of deleted values goes back to the file system, and values that are set again find room.

use crate::common::{Client, Running, encode, show};
use perdura::{Domain, EngineKind};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

const VALUE: usize = 1_000;

/// How much is set and deleted.
fn bytes() -> u64 {
    perdura_testing::times(40) << 20
}

fn occupied(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

fn served(engine: EngineKind, domain: Domain) -> Running {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = perdura::Options::new().size(bytes() * 2 + (16 << 20)).log(2 << 20).engine(engine);
    let pool = pool.domain(Some(domain)).create(folder.path().join("pool")).unwrap();
    let mut running = Running::on(pool, |options| options.threads(1));
    running.adopt(Some(folder));
    running
}

fn fill(client: &mut Client) {
    let keys = bytes() / VALUE as u64;
    for first in (0..keys).step_by(500) {
        let batch = first..keys.min(first + 500);
        let value = |key: u64| key.to_le_bytes().repeat(VALUE / 8);
        let sets = batch
            .clone()
            .flat_map(|key| encode(&[b"SET", format!("{key}").as_bytes(), &value(key)]));
        client.send(&sets.collect::<Vec<u8>>());
        batch.for_each(|_| assert_eq!(show(&client.receive().expect("an answer")), "OK"));
    }
}

#[test]
fn after_flushall_the_file_takes_next_to_nothing() {
    for (engine, domain) in
        [(EngineKind::Redo, Domain::Process), (EngineKind::ArchaptUndo, Domain::Process)]
    {
        let running = served(engine, domain);
        let path = running.pool.path().to_owned();
        let mut client = running.client();
        let empty = occupied(&path);
        fill(&mut client);
        let full = occupied(&path);
        assert!(full > bytes() + empty, "{full} bytes in use");
        assert_eq!(client.ask("FLUSHALL"), "OK");
        // A pool keeps a few megabytes ready.
        let (begun, most) = (Instant::now(), empty + (6 << 20));
        while occupied(&path) > most {
            let left = occupied(&path);
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{engine}: {left} of {full} bytes are left"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        println!(
            "{engine}: {empty} empty, {full} full, {} after {:?}",
            occupied(&path),
            begun.elapsed()
        );
        fill(&mut client);
        let again = occupied(&path);
        assert!(again < full + full / 8, "{engine}: {again} bytes, {full} before");
        assert_eq!(
            client.ask("GET 77"),
            String::from_utf8_lossy(&77u64.to_le_bytes().repeat(VALUE / 8))
        );
        assert_eq!(running.check().keys, bytes() / VALUE as u64);
    }
}
