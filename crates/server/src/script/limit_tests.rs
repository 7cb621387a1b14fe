//! Scripts that would take the thread, its memory or the next script's tables.

use super::tests::{eval, eval_with};
use super::{Busy, Killing, Late, Runs, Script, Scripts, Sort, sha1_hex};
use crate::command::harness::Bench;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Shared tables cannot be reached through anything that scripts have.
#[test]
fn shared_tables_are_not_handed_out() {
    let mut bench = Bench::new();
    for trick in [
        "local _, g = pairs(_G) g.tonumber = function() return 666 end",
        "local _, r = pairs(redis) setmetatable(r, {__newindex = function() end})",
        "local _, s = pairs(string) rawset(s, 'rep', 1)",
        "table.insert(_G, 1)",
        "table.insert(redis, 1, 2)",
        "table.remove(cjson)",
        "table.sort(string, function() end)",
        "getmetatable(_G).__index = nil",
        "getmetatable('').__index = nil",
        "getmetatable(getmetatable(_G)).x = 1",
        "local f, s = pairs(_G) for k, v in f, s do if k == 'redis' then v.call = 1 end end",
    ] {
        let reply = eval(&mut bench, trick);
        assert!(reply.starts_with("-ERR "), "{trick}: {reply}");
    }
    // Functions in C write to the proxy itself, or to nothing that stays.
    for harmless in [
        "for _, t in ipairs({getmetatable(_G), getmetatable('')}) do table.insert(t, 'left') end return 1",
        "pcall(table.foreach, _G, function(k, v) _G[k] = 1 end) return 1",
        "pcall(table.setn, _G, 1) pcall(unpack, _G) return 1",
    ] {
        assert_eq!(eval(&mut bench, harmless), ":1", "{harmless}");
    }
    let look = "local n = 0 for k in pairs(_G) do n = n + 1 end \
                return {tonumber('5'), type(redis.call), getmetatable('')[1] == nil, \
                getmetatable(_G)[1] == nil, rawget(_G, 1) == nil, n > 20, ('x'):rep(2), rawget(_G, 'KEYS') == KEYS}";
    assert_eq!(eval(&mut bench, look), "*8 :5 $8 function :1 :1 :1 :1 $2 xx :1");
}

#[test]
fn no_function_evades_its_end() {
    let mut bench = Bench::new();
    bench.limit_script(100);
    for index in 0..2000 {
        bench.run(&format!("set key:{index} {index}"));
    }
    for script in [
        "local function f(d) if d == 0 then return end for i = 1, 500 do coroutine.wrap(f)(d - 1) end end f(50)",
        "local function f() while true do coroutine.create(f) end end f()",
        "while true do redis.call('keys', '*') end",
        "local t = {} for i = 1, 1e6 do t[i] = {} end while true do collectgarbage() end",
        "while true do local x = ('x'):rep(3e7) end",
        "while true do local x = (''):rep(2147483647) end",
        "return string.find(('a'):rep(1e5), ('.-'):rep(20) .. 'b')",
        "return string.find(('a'):rep(1e6), ('a'):rep(4e5) .. 'b', 1, true)",
        "for x in string.gmatch(('a'):rep(1e6), ('a-'):rep(9) .. 'b') do end",
        "return string.gsub(('a'):rep(1e6), '.-.-.-.-b', {})",
        "return string.gsub(('a'):rep(1e5), ('[' .. ('b'):rep(1e5) .. ']'):rep(3), 'x')",
        "local t = {} for i = 1, 5e5 do t[i] = i end while true do table.sort(t, rawequal) end",
        "local t = {} for i = 1, 1e6 do t[i] = 'x' end while true do table.concat(t) end",
        "local t = {} for i = 1, 5e5 do t[i] = i end while true do table.insert(t, 1, 1) table.remove(t, 1) end",
        "local s = ('x'):rep(1e7) while true do s:upper() s:reverse() string.format('%q', s) end",
        "local s = '--' .. ('x'):rep(1e7) while true do loadstring(s) end",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.maxn(t) table.foreachi(t, rawequal) end",
        "cjson.encode_sparse_array(false, 0) return cjson.encode({[2^53] = 1})",
        "local t = {} for i = 1, 30 do t = {t, t} end return cjson.encode(t)",
        "local t = {} for i = 1, 15 do t = {t, t, t, t, t, t, t} end return cmsgpack.pack(t)",
        "local t = {} for i = 1, 40 do t = {t, t} end return t",
        "local s = '[' .. ('1,'):rep(1e6) .. '1]' while true do cjson.decode(s) end",
    ] {
        let began = Instant::now();
        let reply = eval(&mut bench, script);
        let shown = &reply[..reply.len().min(100)];
        assert!(reply.contains("Script killed by user"), "{script}: {shown}");
        let took = began.elapsed();
        println!("{took:?} {script}");
        assert!(took.as_secs() < 3, "{script}: {took:?}");
    }
    assert_eq!(eval(&mut bench, "return #redis.call('keys', '*')"), ":2000");
}

#[test]
fn functions_in_rust_keep_to_the_memory_limit() {
    let mut bench = Bench::new();
    bench.limit_script(0);
    for (script, error) in [
        ("return ('x'):rep(3e8)", "not enough memory"),
        ("return string.gsub(('x'):rep(1e5), '', ('y'):rep(1e5))", "not enough memory"),
        (
            "local s = ('x'):rep(1e6) local t = {} for i = 1, 16 do t[i] = s end local u = {} \
             for i = 1, 16 do u[i] = t end return cjson.encode({u, u, u, u})",
            "not enough memory",
        ),
        (
            "local s = ('x'):rep(1e6) local t = {} for i = 1, 16 do t[i] = s end local u = {} \
             for i = 1, 16 do u[i] = t end return cmsgpack.pack({u, u, u, u})",
            "not enough memory",
        ),
        ("return string.find('', ('a*'):rep(1e6))", "user_script:1: pattern too complex"),
        ("return string.match('x', ('('):rep(40))", "user_script:1: too many captures"),
        ("return string.format('%99999d', 1)", "invalid format (width or precision too long)"),
        ("return unpack({}, 1, 1e8)", "too many results to unpack"),
        ("return ('x'):rep(1e6):byte(1, -1)", "string slice too long"),
        (
            "return table.concat({1}, '', 1, 2147483647)",
            "invalid value (nil) at index 2 in table for 'concat'",
        ),
        ("local function f() local ok, e = pcall(f) return e end error(f(), 0)", ""),
        (
            "local f = function() end for i = 1, 1e6 do local g = f f = function() return (g()) end end f() error('x', 0)",
            "",
        ),
    ] {
        let reply = eval(&mut bench, script);
        let shown = &reply[..reply.len().min(200)];
        assert!(reply.starts_with("-ERR ") && reply.contains(error), "{script}: {shown}");
        assert_eq!(eval(&mut bench, "return 1"), ":1", "{script}");
    }
}

/// A library's function may get more values than the interpreter has places for.
#[test]
fn many_values_are_refused_or_taken() {
    let mut bench = Bench::new();
    bench.limit_script(0);
    for (script, reply) in [
        (
            "local t = {} for i = 1, 20000 do t['key' .. i] = 'value' .. i end \
             local n = 0 for _ in pairs(cjson.decode(cjson.encode(t))) do n = n + 1 end return n",
            ":20000",
        ),
        (
            "local t = {} for i = 1, 20000 do t['key' .. i] = 'value' .. i end \
             local n = 0 for _ in pairs(cmsgpack.unpack(cmsgpack.pack(t))) do n = n + 1 end return n",
            ":20000",
        ),
        (
            "local t = {} for i = 1, 3000 do t[i] = 'x' .. i end return redis.call('rpush', 'l', unpack(t))",
            ":3000",
        ),
        (
            "local t = {} for i = 1, 7900 do t[i] = {} end pcall(cjson.encode, unpack(t)) return 1",
            ":1",
        ),
        (
            "local t = {} for i = 1, 7900 do t[i] = {} end pcall(cmsgpack.pack, unpack(t)) return 1",
            ":1",
        ),
        (
            "local t = {} for i = 1, 7900 do t[i] = 'x' .. i end pcall(redis.call, 'del', unpack(t)) return 1",
            ":1",
        ),
        ("cjson.decode_max_depth(1e6) pcall(cjson.decode, ('['):rep(1e5)) return 1", ":1"),
        ("cjson.decode_max_depth(1e6) pcall(cjson.decode, ('{\"a\":'):rep(1e5)) return 1", ":1"),
        ("cjson.encode_max_depth(1e6) local t = {} t[1] = t pcall(cjson.encode, t) return 1", ":1"),
        ("cjson.encode_max_depth(1e6) local t = {} t.x = t pcall(cjson.encode, t) return 1", ":1"),
    ] {
        let found = eval(&mut bench, script);
        assert_eq!(found, reply, "{script}");
        assert_eq!(eval(&mut bench, "return 1"), ":1", "{script}");
    }
}

#[test]
fn nan_is_no_place() {
    let mut bench = Bench::new();
    for (script, reply) in [
        (
            "return struct.unpack('b', 'x', 0/0)",
            "-ERR user_script:1: bad argument #3 to 'unpack' (offset must be 1 or greater)",
        ),
        (
            "return {pcall(struct.unpack, 'b', 'x', math.huge)}",
            "*2 $-1 $51 bad argument #2 to 'unpack' (data string too short)",
        ),
        ("return pcall(struct.unpack, 'bc0', '\\255xx')", ":1"),
        ("return string.rep('x', 0/0)", "$0 "),
        ("return {string.find('abc', 'b', 0/0)}", "*2 :2 :2"),
    ] {
        let found = eval(&mut bench, script);
        assert_eq!(found.split(" script: ").next(), Some(reply.trim_end()), "{script}");
    }
    for script in [
        "math.random(0/0)",
        "math.randomseed(0/0)",
        "bit.lshift(0/0, 0/0)",
        "struct.pack('i', 0/0)",
        "struct.pack('>i8', -1/0)",
        "cmsgpack.pack(0/0)",
        "cmsgpack.unpack_limit('\\1', 0/0, 0/0)",
        "cmsgpack.unpack_one('\\1', 0/0)",
        "redis.setresp(0/0)",
        "redis.log(0/0, 'x')",
        "cjson.encode_max_depth(0/0)",
        "cjson.encode_sparse_array(true, 0/0)",
        "struct.unpack('b', 'x', -0/0)",
        "string.gsub('a', 'a', 'b', 0/0)",
    ] {
        let reply = eval(&mut bench, &format!("pcall(function() {script} end) return 1"));
        assert_eq!(reply, ":1", "{script}");
    }
}

fn script(len: usize, number: usize) -> Arc<Script> {
    let source = format!("return {number} --{}", "x".repeat(len)).into_bytes();
    Arc::new(Script::new(&source, sha1_hex(&source)).unwrap())
}

#[test]
fn scripts_that_are_kept_take_bounded_memory() {
    let scripts = Scripts::default();
    for number in 0..100 {
        scripts.note(&script(2 << 20, number));
    }
    let (count, bytes) = scripts.size();
    assert!((20..=32).contains(&count) && bytes <= 64 << 20, "{count} with {bytes} bytes");
    assert!(scripts.find(&script(2 << 20, 99).digest).is_some());
    // A large one pushes out none.
    scripts.note(&script(5 << 20, 1));
    assert!(scripts.find(&script(5 << 20, 1).digest).is_none());
    assert_eq!(scripts.size(), (count, bytes));
    // Those of EVAL take no room from those that are loaded.
    let loaded = script(2 << 20, 99);
    scripts.load(&loaded, 3 << 20).unwrap();
    scripts.load(&loaded, 3 << 20).unwrap();
    assert_eq!(scripts.size(), (count, bytes));
    assert!(scripts.load(&script(2 << 20, 98), 3 << 20).is_err());
    for number in 0..1000 {
        scripts.note(&script(10, number));
    }
    assert_eq!(scripts.size().0, 501);
    assert!(scripts.find(&loaded.digest).is_some());
    scripts.flush();
    assert_eq!(scripts.size(), (0, 0));
}

/// A transaction that is in conflict runs its scripts again: one that was killed stays so.
#[test]
fn a_kill_outlives_a_conflict() {
    let runs = Runs::new(1);
    let run = runs.of(0);
    assert_eq!(runs.kill(Sort::Script), Killing::Idle);
    run.begin(7, Sort::Script);
    assert_eq!(runs.kill(Sort::Script), Killing::Done);
    assert!(runs.kill(Sort::Script) == Killing::Idle && run.is_killed());
    assert!(run.end(7, false));
    run.begin(8, Sort::Script);
    assert!(!run.is_killed() && !run.end(8, false), "another client's script is not killed");
    run.begin(7, Sort::Script);
    assert!(run.is_killed() && run.end(7, false), "it is killed again");
    run.settle();
    run.begin(7, Sort::Script);
    assert!(!run.is_killed() && !run.end(7, false), "the client's next script runs");
}

#[test]
fn scripts_and_functions_are_killed_by_their_own_commands() {
    let runs = Runs::new(2);
    runs.of(0).begin(7, Sort::Function);
    assert_eq!(runs.kill(Sort::Script), Killing::Not(Busy(Sort::Function)));
    runs.of(1).begin(8, Sort::Script);
    assert_eq!(runs.kill(Sort::Script), Killing::Done);
    assert!(!runs.of(0).is_killed() && runs.of(1).is_killed());
}

/// A long script lets in a thread that waits for the lock, once it knows that there is one, and is overdue in the end.
#[test]
fn a_long_script_lets_others_in() {
    let runs = Runs::new(3);
    let (began, most) = (Instant::now(), Some(Duration::from_secs(1)));
    let late = |millis| {
        let now = began + Duration::from_millis(millis);
        runs.late(0, (began, now), most, &|| false, &|| None)
    };
    runs.of(0).begin(7, Sort::Script);
    // One that only reads excludes nobody.
    assert!(matches!(late(500), Late::Until(_)) && !runs.has_long_beside(1));
    let writing = runs.of(0).write();
    assert!(matches!(late(500), Late::Until(_)));
    assert!(runs.has_long_beside(1) && !runs.has_long_beside(0) && runs.busy().is_none());
    let other = runs.of(2).write();
    for _ in 0..3 {
        assert_eq!(late(600), Late::Again);
        assert!(!runs.of(0).end(7, true) && runs.has_long_beside(1));
        assert!(runs.of(0).takes_again() && !runs.of(0).takes_again());
        runs.of(0).begin(7, Sort::Script);
    }
    assert!(matches!(late(600), Late::Until(_)), "no more often than that");
    drop(other);
    assert_eq!((late(1000), runs.busy()), (Late::Overdue, Some(Busy(Sort::Script))));
    runs.of(0).end(7, true);
    drop(writing);
    assert!(!runs.has_long_beside(1) && runs.busy().is_none());
}

#[test]
fn a_script_ends_when_the_server_does() {
    let mut bench = Bench::new();
    bench.limit_script(0);
    bench.stop_server();
    assert_eq!(eval(&mut bench, "return 1"), ":1");
    let reply = eval(&mut bench, "redis.call('set', 'k', 'v') while true do end");
    assert!(reply.starts_with("-ERR the server is shutting down"), "{reply}");
    assert_eq!(bench.run("exists k"), ":0");
    let reply = eval_with(&mut bench, "return #KEYS", &["0"]);
    assert_eq!(reply, ":0");
}
