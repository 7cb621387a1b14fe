use super::*;
use crate::command::harness::Bench;

/// A hundred keys of which the even ones expire, the higher ones sooner, and the policy.
fn bench(policy: EvictionPolicy) -> Bench {
    let mut bench = Bench::new();
    bench.set_policy(policy);
    for number in 0..100 {
        bench.now += 1_000;
        let expiry =
            if number % 2 == 0 { format!(" ex {}", 10_000 - 2 * number) } else { String::new() };
        assert_eq!(bench.run(&format!("set key{number} {number}{expiry}")), "+OK");
    }
    bench
}

/// Evicts this many keys, one transaction after the other; the numbers of those that are left.
fn left(bench: &mut Bench, count: usize) -> Vec<u32> {
    let mut evicted = 0;
    while evicted < count {
        match bench.evict((count - evicted).min(AT_ONCE)) {
            0 => break,
            some => evicted += some,
        }
    }
    bench.check();
    (0..100).filter(|number| bench.run(&format!("exists key{number}")) == ":1").collect()
}

#[test]
fn nothing_goes_without_a_policy() {
    let mut bench = bench(EvictionPolicy::NoEviction);
    assert_eq!(left(&mut bench, 10).len(), 100);
}

/// The order is approximate: half go, and most of them are of the half that was used before.
#[test]
fn unused_keys_go_first() {
    let mut bench = bench(EvictionPolicy::AllKeysLru);
    for number in 0..25 {
        // A use, and what is none.
        bench.now += 1_000;
        assert_ne!(bench.run(&format!("get key{number}")), "$-1");
        bench.run(&format!("ttl key{}", 25 + number));
        bench.run(&format!("object encoding key{}", 25 + number));
    }
    let left = left(&mut bench, 50);
    assert_eq!(left.len(), 50);
    let recent = left.iter().filter(|number| **number < 25 || **number >= 75).count();
    assert!(recent >= 33, "{left:?}");
}

#[test]
fn seldom_used_keys_go_first() {
    let mut bench = bench(EvictionPolicy::AllKeysLfu);
    for _ in 0..200 {
        bench.now += 10;
        (40..60).for_each(|number| drop(bench.run(&format!("get key{number}"))));
    }
    let left = left(&mut bench, 70);
    let hot = left.iter().filter(|number| (40..60).contains(*number)).count();
    assert!(left.len() == 30 && hot >= 15, "{left:?}");
}

#[test]
fn lasting_keys_stay_if_only_others_may_go() {
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        let mut bench = bench(policy.parse().unwrap());
        let after = left(&mut bench, 20);
        let lasting = |left: &[u32]| left.iter().filter(|number| **number % 2 == 1).count();
        assert_eq!((after.len(), lasting(&after)), (80, 50), "{policy}: {after:?}");
        if policy == "volatile-ttl" {
            assert_eq!(after.iter().filter(|number| **number % 2 == 0).max(), Some(&58));
        }
        let after = left(&mut bench, 100);
        assert_eq!((after.len(), lasting(&after)), (50, 50), "{policy}: {after:?}");
        assert_eq!(bench.evict(1), 0, "{policy}");
    }
}

#[test]
fn any_keys_go_of_all_databases() {
    let mut bench = bench(EvictionPolicy::AllKeysRandom);
    assert_eq!(bench.run("move key7 3"), ":1");
    assert!(left(&mut bench, 1_000).is_empty());
    assert_eq!(bench.evict(1), 0, "those of other databases too");
}

#[test]
fn objects_tell_their_uses() {
    let mut bench = bench(EvictionPolicy::VolatileLru);
    assert_eq!(bench.run("object idletime key39"), ":60");
    assert_eq!(bench.run("touch key39"), ":1");
    assert_eq!(bench.run("object idletime key39"), ":0");
    assert_eq!(bench.run("object idletime none"), "$-1");
    assert!(bench.run("object freq key39").starts_with("-ERR An LFU maxmemory policy"));
    bench.set_policy(EvictionPolicy::AllKeysLfu);
    assert_eq!(bench.run("object freq key39"), ":0");
    assert_eq!(bench.run("touch key39"), ":1");
    assert_eq!(bench.run("object freq key39"), ":5");
    assert!(bench.run("object idletime key39").starts_with("-ERR idle time"));
}

/// Where few keys expire, those of them go that are unused, and not any.
#[test]
fn few_keys_that_expire_go_in_order() {
    let mut bench = Bench::new();
    bench.set_policy(EvictionPolicy::VolatileLru);
    for number in 0..3_000 {
        bench.run(&format!("set lasting{number} 1"));
    }
    for number in 0..40 {
        bench.now += 100;
        bench.run(&format!("set key{number} 1 ex {}", 1_000 + number * 7 % 40));
    }
    (0..20).for_each(|number| drop(bench.run(&format!("get key{number}"))));
    // Of twenty draws, few are of one key.
    assert!(bench.evict(4) > 0);
    let used = (0..20).filter(|number| bench.run(&format!("exists key{number}")) == ":1").count();
    assert!(used >= 18, "{used} of 20 that were used last are left");
    bench.check();
}
