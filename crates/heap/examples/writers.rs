//! Scratch.
#![allow(missing_docs)]
use perdura::collections::HashMap;
use perdura::{Access, Engine, Format, Heap, Purpose, RedoEngine, Tx, Volatile};
use perdura_engine::{CcStmEngine, StmEngine};
use perdura_memory::random::SplitMix64;
use perdura_memory::{Domain, MapOptions, Mapped};
use std::sync::Arc;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const WORDS: u64 = 1 << 20;

fn run<E: Engine<Mapped>>(kind: &str, threads: usize, shared: bool, ms: u64) -> f64 {
    let path = format!("/dev/shm/writers-{}", std::process::id());
    let _ = std::fs::remove_file(&path);
    let options =
        MapOptions { domain: Some(Domain::Transient), limit: 512 << 20, ..MapOptions::default() };
    let memory = Arc::new(Mapped::create(&path, 16 << 20, options).unwrap());
    let _ = std::fs::remove_file(&path);
    let format = Format { limit: 512 << 20, log: None, id: 1, requires: None, checksums: false };
    let heap = Heap::<Mapped, E>::create(memory, format).unwrap();
    let mut session = heap.session().unwrap();
    let at =
        session.transaction(|tx| tx.allocate(Purpose::General, WORDS * 8).map(|f| f.at())).unwrap();
    for chunk in 0..WORDS / 512 {
        session
            .transaction(|tx| {
                (0..512).try_for_each(|i| {
                    let w = chunk * 512 + i;
                    tx.write_word(at + w * 8, w)
                })
            })
            .unwrap();
    }
    let maps: Vec<_> = (0..threads)
        .map(|_| session.transaction(|tx| HashMap::<u64, u64>::create(tx)).unwrap())
        .collect();
    for (t, map) in maps.iter().enumerate() {
        if shared && t > 0 {
            break;
        }
        for k in 0..40_000_u64 {
            session.transaction(|tx| map.insert(tx, k * 2, k).map(drop)).unwrap();
        }
    }
    drop(session);
    let barrier = Barrier::new(threads);
    let parts = threads as u64;
    let total: f64 = std::thread::scope(|scope| {
        let hs: Vec<_> = (0..threads)
            .map(|t| {
                let (heap, barrier, maps) = (&heap, &barrier, &maps);
                scope.spawn(move || {
                    let mut session = heap.session().unwrap();
                    let mut random = SplitMix64::new(t as u64 + 1);
                    let span = if shared { WORDS } else { WORDS / parts };
                    let base = if shared { at } else { at + span * 8 * t as u64 };
                    let map = if shared { &maps[0] } else { &maps[t] };
                    let block = vec![7_u8; 1024];
                    let mut one = |n: u64| match kind {
                        "map" => {
                            let key = random.below(80_000);
                            match random.below(4) {
                                0 => session
                                    .transaction(|tx| map.insert(tx, key, n).map(drop))
                                    .unwrap(),
                                1 => {
                                    session.transaction(|tx| map.remove(tx, key).map(drop)).unwrap()
                                }
                                _ => session.read(|tx| map.get(tx, key).map(drop)).unwrap(),
                            }
                        }
                        "1k" => {
                            let slot = random.below(span * 8 / 1024);
                            session
                                .transaction(|tx| tx.write_bytes(base + slot * 1024, &block))
                                .unwrap();
                        }
                        "hot" => {
                            session
                                .transaction(|tx| {
                                    let v = tx.read_word(at)?;
                                    tx.write_word(at, v + 1)
                                })
                                .unwrap();
                        }
                        k => {
                            let swaps: u64 = k.parse().unwrap();
                            let mut pairs = [(0, 0); 16];
                            for p in &mut pairs[..swaps as usize] {
                                *p = (base + random.below(span) * 8, base + random.below(span) * 8);
                            }
                            session
                                .transaction(|tx| {
                                    for &(a, b) in &pairs[..swaps as usize] {
                                        tx.prefetch(a);
                                        tx.prefetch(b);
                                    }
                                    for &(a, b) in &pairs[..swaps as usize] {
                                        let (x, y) = (tx.read_word(a)?, tx.read_word(b)?);
                                        tx.write_word(a, y)?;
                                        tx.write_word(b, x)?;
                                    }
                                    Ok(())
                                })
                                .unwrap();
                        }
                    };
                    (0..2000).for_each(&mut one);
                    barrier.wait();
                    let start = Instant::now();
                    let (mut n, end) = (0, Duration::from_millis(ms));
                    while start.elapsed() < end {
                        (0..64).for_each(&mut one);
                        n += 64;
                    }
                    let rate = n as f64 / start.elapsed().as_secs_f64();
                    let _ = one;
                    if std::env::var("COUNT").is_ok() {
                        eprintln!(
                            "{} {kind} conflicts {} of {}",
                            E::NAME,
                            session.counters().aborts_conflict,
                            session.counters().commits
                        );
                    }
                    rate
                })
            })
            .collect();
        hs.into_iter().map(|h| h.join().unwrap()).sum()
    });
    total / 1e6
}

fn main() {
    let kinds: Vec<String> = std::env::args().skip(1).collect();
    let ms = std::env::var("MS").ok().and_then(|t| t.parse().ok()).unwrap_or(100);
    let reps = std::env::var("REPS").ok().and_then(|t| t.parse().ok()).unwrap_or(5);
    println!(
        "{:8} {:>8} {:>8} {:>8} {:>8} | 1 thread M/s: volatile redo stm ccstm, then 2 threads disjoint, 2 shared",
        "", "", "", "", ""
    );
    for kind in &kinds {
        let mut all = vec![Vec::new(); 12];
        for _ in 0..reps {
            for (i, (threads, shared)) in
                [(1, false), (2, false), (2, true)].into_iter().enumerate()
            {
                all[i * 4].push(run::<Volatile<Mapped>>(kind, threads, shared, ms));
                all[i * 4 + 1].push(run::<RedoEngine<Mapped>>(kind, threads, shared, ms));
                all[i * 4 + 2].push(run::<StmEngine<Mapped>>(kind, threads, shared, ms));
                all[i * 4 + 3].push(run::<CcStmEngine<Mapped>>(kind, threads, shared, ms));
            }
        }
        print!("{kind:6}");
        for v in &mut all {
            v.sort_by(f64::total_cmp);
            print!(" {:7.3}", v[v.len() / 2]);
        }
        println!();
    }
}
