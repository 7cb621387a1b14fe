//! Streams' commands, one after the other on a heap in plain memory.

use super::harness::Bench;

#[test]
fn entries_are_added_and_read() {
    let mut bench = Bench::new();
    bench.play(&[
        ("xadd s 1-1 a 1", "$3 1-1"),
        ("xadd s 1-* b 2", "$3 1-2"),
        ("xadd s 5 c 3 d 4", "$3 5-0"),
        ("xadd s 5-0 x y", "-ERR The ID specified in XADD is equal or smaller than the target stream top item"),
        ("xadd s 0-0 x y", "-ERR The ID specified in XADD must be greater than 0-0"),
        ("xadd s * x y z", "-ERR wrong number of arguments for 'xadd' command"),
        ("xadd t nomkstream 1 x y", "$-1"),
        ("exists t", ":0"),
        ("xlen s", ":3"),
        ("type s", "+stream"),
        ("object encoding s", "$6 stream"),
        ("xrange s - +", "*3 *2 $3 1-1 *2 $1 a $1 1 *2 $3 1-2 *2 $1 b $1 2 *2 $3 5-0 *4 $1 c $1 3 $1 d $1 4"),
        ("xrange s (1-1 (5", "*2 *2 $3 1-2 *2 $1 b $1 2 *2 $3 5-0 *4 $1 c $1 3 $1 d $1 4"),
        ("xrange s 1 1 count 1", "*1 *2 $3 1-1 *2 $1 a $1 1"),
        ("xrevrange s + 1-2 count 1", "*1 *2 $3 5-0 *4 $1 c $1 3 $1 d $1 4"),
        ("xrange s - + count 0", "*-1"),
        ("xread count 1 streams s none 1-1 0", "*1 *2 $1 s *1 *2 $3 1-2 *2 $1 b $1 2"),
        ("xread streams s 5", "*-1"),
        ("xread block 0 streams s $", "*-1"),
        ("xdel s 1-2 9-9", ":1"),
        ("xlen s", ":2"),
        ("xsetid s 4", "-ERR The ID specified in XSETID is smaller than the target stream top item"),
        ("xsetid s 9-9 entriesadded 7 maxdeletedid 3-3", "+OK"),
        ("xadd s 9-9 x y", "-ERR The ID specified in XADD is equal or smaller than the target stream top item"),
        ("xtrim s maxlen 1", ":1"),
        ("xrange s - +", "*1 *2 $3 5-0 *4 $1 c $1 3 $1 d $1 4"),
        ("xtrim s minid 6", ":1"),
        ("exists s", ":1"),
        ("xinfo stream s", "*20 $6 length :0 $15 radix-tree-keys :0 $16 radix-tree-nodes :1 $17 last-generated-id $3 9-9 $20 max-deleted-entry-id $3 3-3 $13 entries-added :7 $23 recorded-first-entry-id $3 0-0 $6 groups :0 $11 first-entry $-1 $10 last-entry $-1"),
        ("xadd s 18446744073709551615-18446744073709551615 x y", "$41 18446744073709551615-18446744073709551615"),
        ("xadd s * x y", "-ERR The stream has exhausted the last possible ID, unable to add more items"),
        ("del s", ":1"),
    ]);
    assert_eq!(bench.run("xadd s * x y"), "$15 1000000000000-0");
    assert_eq!(bench.run("xadd s * x y"), "$15 1000000000000-1");
}

/// Many chunks: each way of reading and removing agrees with a list of what was added.
#[test]
fn large_streams_are_as_they_should_be() {
    let mut bench = Bench::new();
    let long = "v".repeat(1500);
    for number in 1..=1000 {
        let value = if number % 50 == 0 { long.clone() } else { number.to_string() };
        bench.run(&format!("xadd s {number} field {value}"));
    }
    bench.check();
    let ids = |bench: &mut Bench, command: &str| -> Vec<u64> {
        let reply = bench.run(command);
        let is_id = |text: &&str| text.ends_with("-0");
        reply.split(' ').filter(is_id).map(|id| id[..id.len() - 2].parse().unwrap()).collect()
    };
    assert_eq!(ids(&mut bench, "xrange s 333 666"), (333..=666).collect::<Vec<_>>());
    assert_eq!(ids(&mut bench, "xrevrange s 666 333"), (333..=666).rev().collect::<Vec<_>>());
    for number in (1..=1000).filter(|number| number % 3 == 0 || (200..500).contains(number)) {
        assert_eq!(bench.run(&format!("xdel s {number}")), ":1");
    }
    bench.check();
    let left: Vec<u64> =
        (1..=1000).filter(|number| number % 3 != 0 && !(200..500).contains(number)).collect();
    assert_eq!(ids(&mut bench, "xrange s - +"), left);
    assert_eq!(bench.run("xtrim s minid 150"), ":100");
    let left: Vec<u64> = left.into_iter().filter(|number| *number >= 150).collect();
    assert_eq!(ids(&mut bench, "xrange s - +"), left);
    bench.run("copy s copied");
    bench.check();
    assert_eq!(
        ids(&mut bench, "xrevrange copied + -"),
        left.iter().rev().copied().collect::<Vec<_>>()
    );
    assert_eq!(bench.run("xtrim s maxlen ~ 20 limit 10"), ":0");
    assert_ne!(bench.run("xtrim s maxlen ~ 20"), ":0");
    assert_ne!(bench.run("xtrim s maxlen 20"), ":0");
    assert_eq!(bench.run("xlen s"), ":20");
    bench.check();
    assert_eq!(bench.run("xtrim s maxlen 0"), ":20");
    bench.run("xadd s 2000 a b");
    bench.check();
    bench.run("del s copied");
    bench.run_cron();
    bench.check();
}

#[test]
fn groups_deliver_claim_and_acknowledge() {
    let mut bench = Bench::new();
    bench.play(&[
        ("xgroup create s g $", "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."),
        ("xgroup create s g $ mkstream", "+OK"),
        ("xgroup create s g $", "-BUSYGROUP Consumer Group name already exists"),
        ("xadd s 1 a 1", "$3 1-0"),
        ("xadd s 2 b 2", "$3 2-0"),
        ("xadd s 3 c 3", "$3 3-0"),
        ("xreadgroup group g one count 2 streams s >", "*1 *2 $1 s *2 *2 $3 1-0 *2 $1 a $1 1 *2 $3 2-0 *2 $1 b $1 2"),
        ("xreadgroup group g two streams s >", "*1 *2 $1 s *1 *2 $3 3-0 *2 $1 c $1 3"),
        ("xreadgroup group g two streams s >", "*-1"),
        ("xreadgroup group g one streams s 0", "*1 *2 $1 s *2 *2 $3 1-0 *2 $1 a $1 1 *2 $3 2-0 *2 $1 b $1 2"),
        ("xreadgroup group none one streams s 0", "-NOGROUP No such key 's' or consumer group 'none' in XREADGROUP with GROUP option"),
        ("xpending s g", "*4 :3 $3 1-0 $3 3-0 *2 *2 $3 one $1 2 *2 $3 two $1 1"),
        ("xpending s g - + 10 one", "*2 *4 $3 1-0 $3 one :0 :2 *4 $3 2-0 $3 one :0 :2"),
        ("xack s g 1 7", ":1"),
        ("xack s none 1", ":0"),
        ("xpending s g - + 10", "*2 *4 $3 2-0 $3 one :0 :2 *4 $3 3-0 $3 two :0 :1"),
        ("xclaim s g two 0 2 justid", "*1 $3 2-0"),
        ("xclaim s g three 0 1 2 3 retrycount 9", "*2 *2 $3 2-0 *2 $1 b $1 2 *2 $3 3-0 *2 $1 c $1 3"),
        ("xclaim s g three 0 1 force justid", "*1 $3 1-0"),
        ("xclaim s g three 10 1 justid", "*0"),
        ("xclaim s g three 0 1 wrong", "-ERR Unrecognized XCLAIM option 'wrong'"),
        ("xdel s 2", ":1"),
        ("xautoclaim s g four 0 - count 2 justid", "*3 $3 3-0 *1 $3 1-0 *1 $3 2-0"),
        ("xautoclaim s g four 0 3", "*3 $3 0-0 *1 *2 $3 3-0 *2 $1 c $1 3 *0"),
        ("xinfo groups s", "*1 *12 $4 name $1 g $9 consumers :4 $7 pending :2 $17 last-delivered-id $3 3-0 $12 entries-read :3 $3 lag :0"),
        ("xgroup createconsumer s g five", ":1"),
        ("xgroup createconsumer s g five", ":0"),
        ("xgroup delconsumer s g four", ":2"),
        ("xpending s g", "*4 :0 $-1 $-1 *-1"),
        ("xgroup setid s g 0", "+OK"),
        ("xreadgroup group g one noack streams s >", "*1 *2 $1 s *2 *2 $3 1-0 *2 $1 a $1 1 *2 $3 3-0 *2 $1 c $1 3"),
        ("xpending s g", "*4 :0 $-1 $-1 *-1"),
        ("xgroup destroy s g", ":1"),
        ("xgroup destroy s g", ":0"),
        ("xgroup nosuch s g", "-ERR unknown subcommand 'nosuch'. Try XGROUP HELP."),
        ("xgroup create s g", "-ERR wrong number of arguments for 'xgroup|create' command"),
    ]);
}

/// A group with many pending entries is freed bit by bit, with its stream or alone.
#[test]
fn large_groups_are_freed() {
    let mut bench = Bench::new();
    bench.run("xgroup create s g $ mkstream");
    bench.run("xgroup create s h $ mkstream");
    for number in 1..=700 {
        bench.run(&format!("xadd s {number} field value"));
    }
    for consumer in 0..70 {
        bench.run(&format!("xreadgroup group g c{consumer} count 10 streams s >"));
        bench.run(&format!("xreadgroup group h c{consumer} count 9 streams s >"));
    }
    bench.check();
    bench.run("copy s copied");
    assert_eq!(bench.run("xpending copied h - + 1 c69"), "*1 *4 $5 622-0 $3 c69 :0 :1");
    bench.check();
    bench.run("xgroup destroy s g");
    bench.check();
    bench.run_cron();
    bench.check();
    bench.run("del s");
    bench.check();
    bench.run_cron();
    bench.check();
    bench.run("flushall");
    bench.run_cron();
    bench.check();
}

#[test]
fn dumped_streams_are_restored() {
    let mut bench = Bench::new();
    bench.run("xgroup create s g $ mkstream");
    for number in 1..=300 {
        let value = "x".repeat(number * 7 % 500);
        let field = if number % 10 == 0 { "other" } else { "field" };
        bench.run(&format!("xadd s {number} {field} {value} number {}", number * number * number));
    }
    bench.run("xreadgroup group g one count 20 streams s >");
    bench.run("xreadgroup group g two count 20 streams s >");
    bench.run("xdel s 25 100");
    let words =
        |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let reply = bench.perform(&words("dump s")).unwrap();
    let start = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let dumped = reply[start..reply.len() - 2].to_vec();
    let mut restore = words("restore t 0");
    restore.push(dumped.clone());
    assert_eq!(bench.perform(&restore).unwrap(), b"+OK\r\n");
    bench.check();
    for command in
        ["xrange K - +", "xpending K g - + 100", "xpending K g - + 100 two", "xinfo groups K"]
    {
        let of = |bench: &mut Bench, key| bench.run(&command.replace('K', key));
        assert_eq!(of(&mut bench, "s"), of(&mut bench, "t"), "{command}");
    }
    // Whatever bytes come, with a right checksum: an error at worst.
    let mut random = 7_u64;
    for _ in 0..2000 {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let mut value = dumped[..dumped.len() - 10].to_vec();
        let at = 1 + (random >> 33) as usize % (value.len() - 1);
        value[at] = (random >> 20) as u8;
        crate::rdb::finish(&mut value);
        restore[3] = value;
        restore.truncate(4);
        restore.push(b"replace".to_vec());
        bench.perform(&restore);
    }
    bench.run_cron();
    bench.check();
}
