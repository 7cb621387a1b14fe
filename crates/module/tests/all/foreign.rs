//! Values that the host makes or moves by itself: from servers without the module, between databases, by eviction.

use crate::client::{Client, Value};
use crate::differential::contents;
use crate::server::{Server, until};

/// One key of each kind and form.
const VALUES: &[&str] = &[
    "set {m}:text value",
    "set {m}:number 17",
    "set {m}:expiring 1 pxat 9000000000000",
    "hset {m}:hash f v g w",
    "rpush {m}:list 1 b 3",
    "sadd {m}:numbers 1 2 3",
    "sadd {m}:set a b 3",
    "zadd {m}:sorted 1 a 2.5 b",
    "xadd {m}:stream 1-1 f v",
    "xadd {m}:stream 2-1 f w",
    "xgroup create {m}:stream group 0",
    "xreadgroup group group one count 1 streams {m}:stream >",
    "pfadd {m}:counter a b c",
];

fn fill(client: &mut Client) {
    for command in VALUES {
        let reply = client.run(command);
        assert!(!matches!(reply, Value::Error(_)), "{command}: {reply:?}");
    }
    // Forms of larger values.
    for number in 0..600 {
        client.run(&format!("hset {{m}}:large {number} a-value-of-{number}"));
        client.run(&format!("zadd {{m}}:many {number} {number}"));
        client.run(&format!("rpush {{m}}:long {number}"));
        client.run(&format!("sadd {{m}}:members member{number}"));
    }
    client.run(&format!("set {{m}}:blob {}", "0123456789".repeat(5_000)));
}

/// The contents of some databases.
fn all(client: &mut Client) -> Vec<Vec<String>> {
    let databases = [0, 1, 5];
    let found = databases.map(|db| {
        assert_eq!(client.run(&format!("select {db}")).text(), "OK");
        let found = contents(client);
        assert_eq!(
            client.run("dbsize").number(),
            found.len() as i64,
            "keys of the host and of the pool"
        );
        found
    });
    client.run("select 0");
    found.into()
}

/// Not the whole of it where they differ.
fn same<T: PartialEq + std::fmt::Debug>(own: &[T], wanted: &[T]) {
    let differs = (0..own.len().max(wanted.len())).find(|at| own.get(*at) != wanted.get(*at));
    let shown =
        |of: &[T], at: usize| format!("{:?}", of.get(at)).chars().take(300).collect::<String>();
    if let Some(at) = differs {
        panic!("number {at}: {} and not {}", shown(own, at), shown(wanted, at));
    }
}

fn same_all(own: &[Vec<String>], wanted: &[Vec<String>]) {
    own.iter().zip(wanted).for_each(|(own, wanted)| same(own, wanted));
}

/// A slot moves from a node of a stock cluster to one with the module, which has a replica.
#[test]
fn slots_of_a_stock_node_move_here() {
    let folder = tempfile::tempdir().expect("a folder");
    // Longer than the large key below takes.
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "10000"];
    let stock = Server::stock_with(folder.path(), &options);
    let mut own = Server::with_pool(folder.path(), "48M", &options);
    let replica = Server::with_module(folder.path(), &options);
    stock.client().run("cluster addslotsrange 0 16383");
    for node in [&own, &replica] {
        stock.client().run(&format!("cluster meet 127.0.0.1 {}", node.port));
    }
    let id = |server: &Server| server.client().run("cluster myid").text();
    until("a cluster", || {
        let knows = |server: &Server| {
            let info = server.client().run("cluster info").text();
            info.contains("cluster_state:ok")
                && info.contains("cluster_known_nodes:3")
                && info.contains("cluster_slots_ok:16384")
        };
        knows(&stock) && knows(&own) && knows(&replica)
    });
    let replicate = format!("cluster replicate {}", id(&own));
    until("a replica", || replica.client().run(&replicate) == Value::Text("OK".to_owned()));
    fill(&mut stock.client());
    // MIGRATE sends the rest of a key's time, which is another one by then.
    let unexpiring = |mut keys: Vec<String>| {
        keys.retain(|key| !key.starts_with("{m}:expiring"));
        keys
    };
    let contents = |client: &mut Client| unexpiring(contents(client));
    let wanted = contents(&mut stock.client());
    let slot = stock.client().run("cluster keyslot {m}").number();
    own.client().run(&format!("cluster setslot {slot} importing {}", id(&stock)));
    stock.client().run(&format!("cluster setslot {slot} migrating {}", id(&own)));
    let keys = stock.client().run(&format!("cluster getkeysinslot {slot} 1000")).list();
    let keys: Vec<String> = keys.into_iter().map(Value::text).collect();
    let migrate = format!("migrate 127.0.0.1 {} {{}} 0 5000 keys {}", own.port, keys.join(" "));
    let args: Vec<&str> =
        migrate.split(' ').map(|word| if word == "{}" { "" } else { word }).collect();
    assert_eq!(stock.client().ask(&args).expect("a reply"), Value::Text("OK".to_owned()));
    for server in [&own, &stock] {
        server.client().run(&format!("cluster setslot {slot} node {}", id(&own)));
    }
    let is_up =
        |server: &Server| server.client().run("cluster info").text().contains("cluster_state:ok");
    until("the cluster is up", || is_up(&own) && is_up(&replica));
    same(&contents(&mut own.client()), &wanted);
    let read_only = |server: &Server| {
        let mut client = server.client();
        client.run("readonly");
        contents(&mut client)
    };
    until("the replica is equal", || read_only(&replica) == wanted);
    let lasts = own.client().run("pexpiretime {m}:expiring").number() - 9_000_000_000_000;
    assert!((0..10_000).contains(&lasts), "{lasts}");
    // They are the module's now: commands work on them, and they outlive the process.
    assert_eq!(own.client().run("hset {m}:hash f x").number(), 0);
    assert_eq!(own.client().run("hset {m}:hash f v").number(), 0);
    own.kill();
    own.restart();
    until("the cluster is up", || is_up(&own));
    same(&contents(&mut own.client()), &wanted);
    // What does not fit stays where it is.
    stock.client().run(&format!("set fits:not {}", "v".repeat(60_000_000)));
    let slot = stock.client().run("cluster keyslot fits:not").number();
    own.client().run(&format!("cluster setslot {slot} importing {}", id(&stock)));
    let large = format!("migrate 127.0.0.1 {} fits:not 0 20000", own.port);
    let refused = format!("{:?}", stock.client().run(&large));
    assert!(refused.contains("the pool has no room for the value"), "{refused}");
    assert_eq!(stock.client().run("strlen fits:not").number(), 60_000_000);
    until("the pending entry is there", || {
        let pending = own.client().run("xpending {m}:stream group");
        matches!(pending, Value::List(list) if list[0] == Value::Number(1))
    });
}

/// A node with the module follows a stock master, is promoted, and has all in its pool.
#[test]
fn a_stock_master_is_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let stock = Server::stock(folder.path());
    let mut client = stock.client();
    fill(&mut client);
    let port = stock.port.to_string();
    let mut own = Server::with_module(folder.path(), &["--replicaof", "127.0.0.1", &port]);
    until("the copy is here", || {
        own.client().run("info replication").text().contains("master_link_status:up")
    });
    for command in [
        "incr {m}:number",
        "spop {m}:members 20",
        "expire {m}:text 100000",
        "zpopmin {m}:many 5",
        "eval EVAL 0",
        "multi",
        "set in:exec 1",
        "lpush {m}:list 0",
        "exec",
        "move {m}:hash 1",
        "copy {m}:set moved db 5",
        "swapdb 1 5",
        "xadd {m}:stream * f late",
        "set gone 1",
        "del gone",
        "incrbyfloat {m}:number 0.5",
    ] {
        let args: Vec<&str> = command
            .split(' ')
            .map(|word| match word {
                "EVAL" => {
                    "redis.call('set', 'by:script', 1); return redis.call('incr', 'by:script')"
                }
                word => word,
            })
            .collect();
        let reply = client.ask(&args).expect("a reply");
        assert!(!matches!(reply, Value::Error(_)), "{command}: {reply:?}");
    }
    let wanted = all(&mut client);
    until("the replica is equal", || all(&mut own.client()) == wanted);
    assert_eq!(own.client().run("replicaof no one").text(), "OK");
    own.forget_master();
    own.kill();
    own.restart();
    same_all(&all(&mut own.client()), &wanted);
}

/// SWAPDB, MOVE and COPY to another database do as a stock server does, on a replica too, and after a kill.
#[test]
fn keys_change_their_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut own = Server::with_module(folder.path(), &["--notify-keyspace-events", "KEA"]);
    let stock = Server::stock_with(folder.path(), &["--notify-keyspace-events", "KEA"]);
    let port = own.port.to_string();
    let replica = Server::with_module(folder.path(), &["--replicaof", "127.0.0.1", &port]);
    until("the replica follows", || {
        replica.client().run("info replication").text().contains("master_link_status:up")
    });
    let mut listeners = [own.client(), stock.client()];
    listeners.iter_mut().for_each(|client| drop(client.run("psubscribe __keyevent@*")));
    let mut clients = [own.client(), stock.client()];
    clients.iter_mut().for_each(fill);
    for command in [
        "set a 1",
        "set b 2 pxat 9000000000000",
        "move a 1",
        "move a 1",
        "move b 16",
        "move b x",
        "move b 0",
        "set a 3",
        "move a 1",
        "move b 1",
        "copy {m}:hash h db 5",
        "copy {m}:hash h db 5",
        "copy {m}:list h db 5 replace",
        "copy {m}:list {m}:list db 0",
        "copy {m}:list {m}:list db 5",
        "copy {m}:list l db 99",
        "swapdb 0 5",
        "select 5",
        "get a",
        "swapdb 5 1",
        "swapdb 5 5",
        "swapdb 0 99",
        "multi",
        "set c 1",
        "swapdb 0 5",
        "move c 0",
        "get c",
        "exec",
        "flushdb",
    ] {
        let [own, stock] = clients.each_mut().map(|client| client.run(command));
        assert_eq!(own, stock, "{command}");
    }
    let end = |client: &mut Client| client.run("publish __keyevent@0__:end end");
    clients.iter_mut().for_each(|client| drop(end(client)));
    // The order of the events of one command is the host's affair.
    let [own_events, stock_events] = listeners.each_mut().map(events);
    same(&own_events, &stock_events);
    let wanted = all(&mut clients[1]);
    same_all(&all(&mut clients[0]), &wanted);
    until("the replica is equal", || all(&mut replica.client()) == wanted);
    // A client that waits for a key of the other database is served.
    let (mut waits, mut moves) = (own.client(), own.client());
    waits.run("select 7");
    waits.send(&["blpop", "queue", "20"]).expect("sent");
    std::thread::sleep(std::time::Duration::from_millis(100));
    moves.run("rpush queue x");
    assert_eq!(moves.run("move queue 7").number(), 1);
    assert_eq!(waits.receive().expect("a reply").list().len(), 2);
    own.kill();
    own.restart();
    same_all(&all(&mut own.client()), &wanted);
}

/// The events that were told until `end`, sorted.
fn events(listener: &mut Client) -> Vec<(String, String)> {
    let mut found = Vec::new();
    loop {
        let message = listener.receive().expect("an event").list();
        let [_, _, channel, key] = <[_; 4]>::try_from(message).expect("four parts");
        let (channel, key) = (channel.text(), key.text());
        if key == "end" {
            found.sort();
            return found;
        }
        // Not told by the module (docs/cluster.md).
        found.push((channel, key));
    }
}

/// The host evicts for its own memory, those first that were not read; the pool follows.
#[test]
fn evicted_keys_are_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut own = Server::with_module(
        folder.path(),
        &["--maxmemory-policy", "allkeys-lru", "--maxmemory-samples", "10", "--maxmemory", "1G"],
    );
    let mut client = own.client();
    for number in 0..2000 {
        client.run(&format!("set key:{number} {number}"));
    }
    std::thread::sleep(std::time::Duration::from_millis(1200));
    for number in 0..200 {
        client.run(&format!("get key:{number}"));
    }
    let info = client.run("info memory").text();
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("a size");
    let most = used.trim().parse::<u64>().expect("a number");
    client.run(&format!("config set maxmemory {most}"));
    for number in 0..1500 {
        client.run(&format!("set other:{number} {number}"));
    }
    client.run("config set maxmemory 0");
    let keys = client.run("keys *").list();
    assert_eq!(client.run("dbsize").number(), keys.len() as i64);
    let left = |kept: bool| {
        let is_read = |key: &Value| match key {
            Value::Text(key) => key
                .strip_prefix("key:")
                .is_some_and(|number| (number.parse::<u32>().expect("a number") < 200) == kept),
            _ => false,
        };
        keys.iter().filter(|key| is_read(key)).count()
    };
    println!("{} of 200 that were read are left, {} of 1800 others", left(true), left(false));
    assert!(keys.len() < 3400, "nothing was evicted: {}", keys.len());
    assert!(left(true) * 1800 > left(false) * 200, "keys that were read are evicted first");
    own.kill();
    own.restart();
    let mut client = own.client();
    let mut again = client.run("keys *").list();
    let mut keys = keys;
    let order = |a: &Value, b: &Value| a.partial_cmp(b).expect("comparable");
    keys.sort_by(order);
    again.sort_by(order);
    assert_eq!(again, keys);
    // Without eviction, writes are refused as a stock server refuses them.
    client.run("config set maxmemory-policy noeviction");
    client.run("config set maxmemory 1000");
    assert!(format!("{:?}", client.run("set a 1")).contains("OOM command not allowed"));
    assert!(matches!(client.run("del other:1499"), Value::Number(_)));
    assert_eq!(client.run("get key:none"), Value::Nil);
}

/// A pool that is full: writes are answered with an error, an EXEC over its edge is all there, and nothing else is lost.
#[test]
fn a_full_pool_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut own = Server::with_pool(folder.path(), "16M", &[]);
    let mut client = own.client();
    let value = "v".repeat(50_000);
    let mut count = 0;
    let why = loop {
        match client.run(&format!("set key:{count} {value}")) {
            Value::Error(why) => break why,
            _ => count += 1,
        }
    };
    println!("{count} values, then: {why}");
    assert!(why.starts_with("OOM"), "{why}");
    assert_eq!(client.run("dbsize").number(), count);
    // A key that another node sends stays there.
    let other = Server::with_module(folder.path(), &[]);
    other.client().run(&format!("set sent {}", "v".repeat(3_000_000)));
    let migrate = format!("migrate 127.0.0.1 {} sent 0 5000", own.port);
    let reply = other.client().run(&migrate);
    assert!(format!("{reply:?}").contains("Bad data format"), "{reply:?}");
    assert!(own.logged().contains("no room for it"), "{}", own.logged());
    assert_eq!(other.client().run("strlen sent").number(), 3_000_000);
    // In the middle of an EXEC: those that do not fit say so, the others are there, together.
    client.run("del key:0");
    client.run("multi");
    client.run("set first 1");
    for number in 0..5 {
        client.run(&format!("set more:{number} {value}"));
    }
    client.run("set last 1");
    let replies = client.run("exec").list();
    let failed = replies.iter().filter(|reply| matches!(reply, Value::Error(_))).count();
    assert!(failed > 0 && failed < replies.len(), "{replies:?}");
    assert_eq!(format!("{:?}", replies.last()), "Some(Text(\"OK\"))");
    let script = "for n = 1, 5 do redis.pcall('set', 's' .. n, ARGV[1]) end; return redis.call('set', 'by', 'script')";
    assert_eq!(client.ask(&["eval", script, "0", &value]).expect("a reply").text(), "OK");
    let keys = client.run("dbsize").number();
    assert_eq!(client.run("keys *").list().len() as i64, keys);
    own.kill();
    own.restart();
    let mut client = own.client();
    assert_eq!(client.run("dbsize").number(), keys);
    assert_eq!(client.run("get last").text() + &client.run("get by").text(), "1script");
    // There is room again.
    for number in 1..20 {
        client.run(&format!("del key:{number}"));
    }
    until("there is room", || {
        client.run(&format!("set again {value}")) == Value::Text("OK".to_owned())
    });
}

/// A replica whose pool is smaller ends with a sentence, both while it follows and while it takes a copy: it never
/// serves less than its master.
#[test]
fn a_replica_with_too_small_a_pool_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let master = Server::with_module(folder.path(), &[]);
    let port = master.port.to_string();
    let mut replica = Server::with_pool(folder.path(), "16M", &["--replicaof", "127.0.0.1", &port]);
    until("the replica follows", || {
        replica.client().run("info replication").text().contains("master_link_status:up")
    });
    let (mut client, value) = (master.client(), "v".repeat(100_000));
    for number in 0..300 {
        assert_eq!(client.run(&format!("set key:{number} {value}")).text(), "OK");
    }
    assert!(replica.ended());
    assert!(replica.logged().contains("replica would differ"), "{}", replica.logged());
    replica.spawn();
    assert!(replica.ended());
    assert!(replica.logged().contains("was sent here and cannot be kept"), "{}", replica.logged());
}

/// No client ends a server with a full pool by a RESTORE in an EXEC or a script.
#[test]
fn a_restore_that_does_not_fit_ends_no_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut own = Server::with_pool(folder.path(), "16M", &[]);
    let port = own.port.to_string();
    let replica = Server::with_module(folder.path(), &["--replicaof", "127.0.0.1", &port]);
    let mut client = own.client();
    until("the replica follows", || {
        replica.client().run("info replication").text().contains("master_link_status:up")
    });
    client.run(&format!("set large {}", "v".repeat(3_000_000)));
    let script = "local dump = redis.call('dump', 'large')
        local made = 0
        for n = 1, 20 do
            local reply = redis.pcall('restore', 'copy:' .. n, 0, dump)
            if reply.ok then made = made + 1 end
        end
        redis.call('set', 'last', 1)
        return made";
    let made = client.ask(&["eval", script, "0"]).expect("a reply").number();
    assert!((1..5).contains(&made), "{made}");
    assert_eq!(client.run("dbsize").number(), made + 2);
    assert_eq!(client.run("keys *").list().len() as i64, made + 2);
    // A value of a stock server, which is looked at only after the host has it.
    let stock = Server::stock(folder.path());
    stock.client().run(&format!("set a {}", "v".repeat(3_000_000)));
    let hex = "return (redis.call('dump', 'a'):gsub('.', function(c) return ('%02x'):format(c:byte()) end))";
    let hex = stock.client().ask(&["eval", hex, "0"]).expect("a reply").text();
    let script =
        "local dump = ARGV[1]:gsub('..', function(h) return string.char(tonumber(h, 16)) end)
        for n = 1, 20 do redis.pcall('restore-asking', 'stock:' .. n, 0, dump) end
        redis.call('set', 'last', 2)
        return redis.call('exists', 'stock:20')";
    client.run("del copy:1");
    assert_eq!(client.ask(&["eval", script, "0", &hex]).expect("a reply").number(), 0);
    let left = client.run("keys *").list().len() as i64;
    assert_eq!(client.run("dbsize").number(), left);
    assert_eq!(client.run("get last").number(), 2);
    assert_eq!(client.run("wait 1 5000").number(), 1);
    assert_eq!(replica.client().run("dbsize").number(), left);
    own.kill();
    own.restart();
    assert_eq!(own.client().run("dbsize").number(), left);
}

/// A key's old value and the one that RESTORE puts in its place change in one step, and both nodes have the same.
#[test]
fn restore_replaces() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut own = Server::with_module(folder.path(), &[]);
    let mut client = own.client();
    client.run("set a new");
    let script = "return redis.call('restore', KEYS[1], ARGV[1], redis.call('dump', 'a'), 'replace', 'absttl')";
    let other = Server::with_module(folder.path(), &[]);
    for (key, old) in [("text", "set text old"), ("hash", "hset hash f v"), ("none", "get none")] {
        client.run(old);
        assert_eq!(client.ask(&["eval", script, "1", key, "0"]).expect("a reply").text(), "OK");
        // One whose time is over is deleted.
        client.run(old.replace(key, &format!("{key}:2")).as_str());
        let gone = format!("{key}:2");
        assert_eq!(client.ask(&["eval", script, "1", &gone, "1"]).expect("a reply").text(), "OK");
        other.client().run(old);
        let migrate = format!("migrate 127.0.0.1 {} {key} 0 5000 copy replace", other.port);
        assert_eq!(client.run(&migrate).text(), "OK");
        assert_eq!(other.client().run(&format!("get {key}")).text(), "new");
    }
    for _ in 0..2 {
        let mut client = own.client();
        assert_eq!(client.run("dbsize").number(), 4);
        assert_eq!(client.run("keys *").list().len(), 4);
        assert_eq!(client.run("get hash").text(), "new");
        own.kill();
        own.restart();
    }
}

/// A replica without room for a key that its master was sent ends, as with one that its master has written.
#[test]
fn a_replica_does_not_leave_out_what_its_master_was_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let (master, other) =
        (Server::with_module(folder.path(), &[]), Server::with_module(folder.path(), &[]));
    let port = master.port.to_string();
    let mut replica = Server::with_pool(folder.path(), "16M", &["--replicaof", "127.0.0.1", &port]);
    until("the replica follows", || {
        replica.client().run("info replication").text().contains("master_link_status:up")
    });
    other.client().run(&format!("set large {}", "v".repeat(20_000_000)));
    let migrate = format!("migrate 127.0.0.1 {port} large 0 20000");
    assert_eq!(other.client().run(&migrate).text(), "OK");
    assert!(replica.ended());
    assert!(replica.logged().contains("for which there is no room here"), "{}", replica.logged());
    assert_eq!(master.client().run("strlen large").number(), 20_000_000);
}

/// What would have the host keep values by itself is refused.
#[test]
fn what_the_pool_cannot_follow_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = Server::with_module(folder.path(), &["--enable-debug-command", "yes"]);
    let mut client = own.client();
    client.run("set a 1");
    for (command, part) in [
        ("debug reload", "DEBUG RELOAD"),
        ("debug loadaof", "DEBUG RELOAD"),
        ("DEBUG Populate 10", "DEBUG RELOAD"),
        ("config set appendonly yes", "'appendonly' stays 'no'"),
        ("config set maxmemory 0 appendonly yes", "'appendonly' stays 'no'"),
        ("config set save 60", "'save' empty"),
    ] {
        let reply = format!("{:?}", client.run(command));
        assert!(reply.contains(part), "{command}: {reply}");
    }
    assert_eq!(client.run("debug sleep 0").text(), "OK");
    assert_eq!(client.ask(&["config", "set", "save", ""]).expect("a reply").text(), "OK");
    assert_eq!(client.run("config set appendonly no").text(), "OK");
    assert_eq!(client.run("get a").text(), "1");
    let library = crate::server::module().display().to_string();
    let twice = client.run(&format!("module load {library} pool other.pool"));
    assert!(matches!(twice, Value::Error(_)), "{twice:?}");
    assert!(matches!(client.run("module unload perdura"), Value::Error(_)));
    assert_eq!(client.run("get a").text(), "1");
}
