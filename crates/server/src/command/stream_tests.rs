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

/// What DUMP answers of a key.
fn dumped(bench: &mut Bench, key: &str) -> Vec<u8> {
    let reply = bench.perform(&[b"dump".to_vec(), key.into()]).unwrap();
    let start = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    reply[start..reply.len() - 2].to_vec()
}

fn restore(bench: &mut Bench, key: &str, dumped: &[u8]) -> String {
    let args = [b"restore".to_vec(), key.into(), b"0".to_vec(), dumped.to_vec()];
    String::from_utf8_lossy(&bench.perform(&args).unwrap()).trim_end().to_owned()
}

/// Consumers' times of activity are in the form of Redis 7.2 alone.
#[test]
fn times_of_consumers_are_dumped_for_those_who_know_them() {
    let mut bench = Bench::new();
    bench.run("xadd s 1 f v");
    bench.run("xgroup create s g 0");
    bench.run("xreadgroup group g one streams s >");
    bench.now += 5000;
    // Seen, and given nothing.
    bench.run("xreadgroup group g one streams s >");
    bench.run("xreadgroup group g never streams s >");
    let idle = |bench: &mut Bench, key: &str| {
        let shown = bench.run(&format!("xinfo consumers {key} g"));
        let words: Vec<&str> = shown.split(' ').collect();
        let after = |name: &str| {
            let found = words.iter().enumerate().filter(|(_, word)| **word == name);
            found.map(|(at, _)| words[at + 1].to_owned()).collect::<Vec<_>>()
        };
        (after("idle"), after("inactive"))
    };
    let own = idle(&mut bench, "s");
    assert_eq!(own.1, [":-1", ":5000"], "those of `never` and `one`");
    let last = dumped(&mut bench, "s");
    assert_eq!((last[0], &last[last.len() - 10..last.len() - 8]), (21, [11, 0].as_slice()));
    assert_eq!(restore(&mut bench, "last", &last), "+OK");
    assert_eq!(idle(&mut bench, "last"), own);
    bench.set_dump_version(10);
    let older = dumped(&mut bench, "s");
    assert_eq!((older[0], &older[older.len() - 10..older.len() - 8]), (19, [9, 0].as_slice()));
    assert_eq!(restore(&mut bench, "older", &older), "+OK");
    let (seen, active) = idle(&mut bench, "older");
    assert_eq!((seen, active), (own.0, vec![":0".to_owned(); 2]), "as if it were then");
    bench.check();
}

/// Many entries that share a long name take little room in Redis's form, and much here.
#[test]
fn a_stream_that_would_grow_is_refused() {
    let mut bench = Bench::new();
    let name = "n".repeat(3000);
    for number in 1..=100 {
        bench.run(&format!("xadd s {number} {name} {number}"));
    }
    let value = dumped(&mut bench, "s");
    assert!(value.len() < 200_000, "{} bytes", value.len());
    bench.limit_request(290_000);
    let reply = restore(&mut bench, "t", &value);
    assert_eq!(reply, "-ERR the stream's entries take more than 290000 bytes, see --max-request");
    assert_eq!(bench.run("exists t"), ":0");
    bench.limit_request(310_000);
    assert_eq!(restore(&mut bench, "t", &value), "+OK");
    assert_eq!(bench.run("xlen t"), ":100");
    bench.check();
}

/// A consumer with most of what is pending, and most of a stream, go as quickly as what stays is copied: the log has no room
/// for each of them.
#[test]
fn most_of_a_stream_goes_at_once() {
    let mut bench = Bench::new();
    bench.run("xgroup create s g 0 mkstream");
    let fill = |bench: &mut Bench, from: u64, to: u64| {
        for number in from..to {
            bench.run(&format!("xadd s {number} f {number}"));
        }
    };
    fill(&mut bench, 1, 3001);
    bench.run("xreadgroup group g few count 100 streams s >");
    bench.run("xreadgroup group g most count 2500 streams s >");
    bench.run("xreadgroup group g others count 200 streams s >");
    let before =
        bench.run("xpending s g - + 1000 few") + &bench.run("xpending s g - + 1000 others");
    assert_eq!(bench.run("xgroup delconsumer s g most"), ":2500");
    bench.check();
    let after = bench.run("xpending s g - + 1000 few") + &bench.run("xpending s g - + 1000 others");
    assert_eq!(before, after);
    assert!(bench.run("xpending s g").starts_with("*4 :300 $3 1-0 $6 2800-0 "));
    assert_eq!(bench.run("xgroup delconsumer s g others"), ":200");
    assert_eq!(bench.run("xgroup delconsumer s g most"), ":0");
    bench.run_cron();
    bench.check();
    assert_eq!(bench.run("xtrim s maxlen 450"), ":2550");
    bench.check();
    bench.run_cron();
    bench.check();
    for number in [2551, 2700, 3000] {
        assert_eq!(
            bench.run(&format!("xrange s {number} + count 1")),
            format!("*1 *2 $6 {number}-0 *2 $1 f $4 {number}")
        );
    }
    fill(&mut bench, 3001, 3300);
    assert_eq!(bench.run("xdel s 2551 3000 3299"), ":3");
    assert_eq!(bench.run("xtrim s minid 3290"), ":737");
    bench.check();
    assert_eq!(bench.run("xtrim s maxlen 0"), ":9");
    bench.run("flushall");
    bench.run_cron();
    bench.check();
}
