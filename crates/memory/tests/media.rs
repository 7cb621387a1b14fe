//! A file on a block device: what reaches it and when, seen through another descriptor.

mod common;

use common::block;
use perdura_memory::{Backing, Domain, LINE, MapOptions, Mapped, Memory, PAGE, Survives};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn media(path: &Path, len: u64) -> Mapped {
    let options = MapOptions { domain: Some(Domain::Media), limit: 64 << 20 };
    Mapped::create(path, len, options).expect("create")
}

fn word(file: &File, at: u64) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at).expect("read");
    u64::from_ne_bytes(bytes)
}

#[test]
fn the_file_changes_by_write_back_and_fence_only() {
    let directory = block();
    let path = directory.path().join("pool");
    let memory = media(&path, 8 * PAGE);
    let file = File::open(&path).expect("another descriptor");
    let bytes = || std::fs::read(&path).expect("read");
    let untouched = bytes();
    let syncs = memory.syncs();

    for at in (0..memory.len()).step_by(8) {
        memory.store(at, at + 1);
    }
    memory.fence();
    assert!(bytes() == untouched, "stores reached the file");
    memory.write_back(PAGE + LINE, 8);
    assert!(bytes() == untouched, "a write-back reached the file before its fence");
    memory.store(PAGE + LINE, 9);
    memory.fence();

    let mut expected = untouched;
    for at in (PAGE + LINE..PAGE + 2 * LINE).step_by(8) {
        expected[at as usize..at as usize + 8].copy_from_slice(&(at + 1).to_ne_bytes());
    }
    assert!(bytes() == expected, "not just the line, as it was when it was written back");
    assert_eq!(memory.load(PAGE + LINE), 9);

    memory.stream(2 * PAGE, &[5; 8]);
    assert_eq!(word(&file, 2 * PAGE), 0);
    memory.fence();
    assert_eq!([word(&file, 2 * PAGE), word(&file, 2 * PAGE + LINE)], [5, 0]);
    assert_eq!((memory.syncs() - syncs, memory.pages_written()), (2, 2));
    memory.check_fence().expect("no failure");
}

#[test]
fn unfenced_is_lost() {
    let directory = block();
    let path = directory.path().join("pool");
    let memory = media(&path, 2 * PAGE);
    memory.store(0, 1);
    memory.write_back(0, 8);
    memory.fence();
    memory.store(0, 2);
    memory.store(LINE, 2);
    memory.write_back(LINE, 8);
    drop(memory);
    let memory = Mapped::open(&path, MapOptions::default()).expect("open");
    assert_eq!([memory.load(0), memory.load(LINE)], [1, 0]);
}

#[test]
fn private_pages_and_growth_go_together() {
    let directory = block();
    let path = directory.path().join("pool");
    let memory = media(&path, 2 * PAGE);
    memory.store(2 * PAGE - 8, 7);
    let syncs = memory.syncs();
    memory.grow(1 << 20).expect("grow");
    assert_eq!(memory.syncs(), syncs + 1, "the length is durable before it counts");
    assert_eq!([memory.load(2 * PAGE - 8), memory.load(2 * PAGE)], [7, 0]);
    memory.store((1 << 20) - 8, 8);
    memory.write_back(2 * PAGE - 8, (1 << 20) - 2 * PAGE + 8);
    memory.fence();
    let file = File::open(&path).expect("another descriptor");
    assert_eq!([word(&file, 2 * PAGE - 8), word(&file, (1 << 20) - 8)], [7, 8]);
    assert_eq!(file.metadata().expect("metadata").len(), 1 << 20);
}

#[test]
fn prefaulting_leaves_durable_zeros() {
    let directory = block();
    let path = directory.path().join("pool");
    let memory = media(&path, 8 * PAGE);
    memory.copy_in(PAGE - 64, &[3; 3 * PAGE as usize]);
    memory.write_back(PAGE - 64, 3 * PAGE);
    memory.prefault_zero(PAGE..3 * PAGE).expect("zeros");
    memory.fence();
    let file = File::open(&path).expect("another descriptor");
    let three = u64::from_ne_bytes([3; 8]);
    let words = [PAGE - 8, PAGE, 3 * PAGE - 8, 3 * PAGE];
    assert_eq!(words.map(|at| word(&file, at)), [three, 0, 0, three]);
    assert_eq!(words.map(|at| memory.load(at)), [three, 0, 0, three]);
    memory.prefault_zero(64..64).expect("nothing to do");
}

#[test]
fn threads_share_syncs_and_keep_their_promises() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 50;
    let directory = block();
    let path = directory.path().join("pool");
    let memory = media(&path, 64 * PAGE);
    let file = File::open(&path).expect("another descriptor");
    let fences: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (memory, file) = (&memory, &file);
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        // One line among the others', and a page of its own.
                        let (near, far) = (thread * LINE, (thread + 1) * 7 * PAGE);
                        memory.store(near, round);
                        memory.copy_in(far, &[round as u8; 200]);
                        memory.write_back(near, 8);
                        memory.write_back(far, 200);
                        memory.fence();
                        memory.check_fence().expect("no failure");
                        assert_eq!(word(file, near), round);
                        assert_eq!(word(file, far + 192), u64::from_ne_bytes([round as u8; 8]));
                    }
                    ROUNDS
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    let syncs = memory.syncs();
    assert!(syncs > 0 && syncs <= fences);
    if memory.backing() == Backing::Block {
        assert!(syncs < fences, "{syncs} syncs for {fences} fences: none was shared");
    }
    let mut visible = vec![0; 64 * PAGE as usize];
    memory.copy_out(0, &mut visible);
    assert!(std::fs::read(&path).expect("read") == visible, "the images differ at rest");
}

#[test]
fn survival_is_reported() {
    let directory = block();
    let memory = media(&directory.path().join("pool"), PAGE);
    let expected = match memory.backing() {
        Backing::Memory => Survives::Process,
        _ => Survives::Power,
    };
    assert_eq!(memory.survives(), expected);
}

/// Gives back as much as possible, and returns which of the pages: those show what another descriptor writes.
fn given_back(memory: &Mapped, file: &File, pages: &[u64]) -> Vec<u64> {
    while memory.give_back() {}
    let probe = |page: u64, value: u64| {
        file.write_all_at(&value.to_ne_bytes(), (page + 1) * PAGE - 8).expect("write");
        memory.load((page + 1) * PAGE - 8) == value
    };
    let seen = |page: &&u64| {
        let is_seen = probe(**page, 77);
        probe(**page, 0);
        is_seen
    };
    pages.iter().filter(seen).copied().collect()
}

#[test]
fn only_what_the_file_has_is_given_back() {
    let directory = block();
    let path = directory.path().join("pool");
    let memory = media(&path, 700 * PAGE);
    let file = File::options().read(true).write(true).open(&path).expect("another descriptor");
    for page in 0..700 {
        memory.store(page * PAGE, page + 1);
        memory.write_back(page * PAGE, 8);
    }
    // Captured, and not in the file yet.
    assert_eq!(given_back(&memory, &file, &[0, 5, 699]), []);
    memory.fence();
    // Stored after its write-back; and a line of it that was never written back.
    memory.store(5 * PAGE, 50);
    memory.store(6 * PAGE + LINE, 60);
    // The same as in the file, but a line kept for the next fence will change that.
    memory.store(7 * PAGE, 70);
    memory.write_back(7 * PAGE, 8);
    memory.store(7 * PAGE, 8);
    assert_eq!(given_back(&memory, &file, &[0, 4, 5, 6, 7, 8, 699]), [0, 4, 8, 699]);
    memory.fence();
    let visible = |page| match page {
        5 => 50,
        page => page + 1,
    };
    assert!((0..700).all(|page| memory.load(page * PAGE) == visible(page)));
    assert_eq!(memory.load(6 * PAGE + LINE), 60);

    // A page that was given back is stored to as any other.
    memory.store(0, 9);
    assert_eq!(word(&file, 0), 1);
    memory.write_back(0, 8);
    memory.fence();
    assert_eq!((word(&file, 0), memory.load(0)), (9, 9));
    for page in [5, 6, 7] {
        memory.write_back(page * PAGE, PAGE);
    }
    memory.fence();
    assert_eq!(given_back(&memory, &file, &[0, 5, 6, 7]), [0, 5, 6, 7]);
    assert!((1..700).all(|page| memory.load(page * PAGE) == visible(page)));
}

#[test]
fn it_says_once_that_there_is_much_to_give_back() {
    let directory = block();
    let memory = media(&directory.path().join("pool"), 40 << 20);
    for at in (0..31 << 20).step_by(PAGE as usize) {
        memory.store(at, 1);
        memory.write_back(at, 8);
    }
    memory.fence();
    assert!(!memory.give_back_due());
    for at in (31 << 20..40 << 20).step_by(PAGE as usize) {
        memory.store(at, 1);
        memory.write_back(at, 8);
    }
    memory.fence();
    assert!(memory.give_back_due() && !memory.give_back_due());
    let started = std::time::Instant::now();
    while memory.give_back() {}
    println!("{} pages looked at in {:?}", (40 << 20) / PAGE, started.elapsed());
    memory.store(0, 2);
    memory.write_back(0, 8);
    memory.fence();
    assert!(!memory.give_back_due());
}
