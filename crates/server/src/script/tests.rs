use crate::command::harness::Bench;

/// Runs a script without keys, and shows its reply.
pub(super) fn eval(bench: &mut Bench, script: &str) -> String {
    eval_with(bench, script, &[])
}

pub(super) fn eval_with(bench: &mut Bench, script: &str, arguments: &[&str]) -> String {
    let mut args = vec![b"eval".to_vec(), script.as_bytes().to_vec()];
    args.extend(arguments.iter().map(|argument| argument.as_bytes().to_vec()));
    if arguments.is_empty() {
        args.push(b"0".to_vec());
    }
    let reply = bench.perform(&args).expect("a command");
    String::from_utf8_lossy(&reply).trim_end().replace("\r\n", " ")
}

/// Scripts and their replies.
fn play(cases: &[(&str, &str)]) {
    let mut bench = Bench::new();
    for (script, reply) in cases {
        let found = eval(&mut bench, script);
        // An error's place is looked at elsewhere.
        let found = found.split(" script: ").next().unwrap_or_default();
        assert_eq!(found, *reply, "{script}");
    }
    bench.check();
}

#[test]
fn results_become_replies() {
    play(&[
        ("return 100.9", ":100"),
        ("return 'hello world'", "$11 hello world"),
        ("return true", ":1"),
        ("return false", "$-1"),
        ("return nil", "$-1"),
        ("return {ok='fine'}", "+fine"),
        ("return {err='MY_ERR Custom error.'}", "-MY_ERR Custom error."),
        ("return {1,2,3,'ciao',{1,2}}", "*5 :1 :2 :3 $4 ciao *2 :1 :2"),
        ("return {1,2,nil,4}", "*2 :1 :2"),
        ("return {double=3.25}", "$4 3.25"),
        ("redis.setresp(3); return {map={a=1}}", "*2 $1 a :1"),
        ("return 2^63", ":-9223372036854775808"),
        ("return redis.sha1hex('')", "$40 da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("return redis.error_reply('My Err')", "-My Err"),
        ("return redis.error_reply('MyErr')", "-ERR MyErr"),
        ("return redis.status_reply('PONG')", "+PONG"),
    ]);
}

#[test]
fn replies_become_values() {
    play(&[
        ("return redis.call('set','k','v')", "+OK"),
        ("return redis.call('get','k')", "$1 v"),
        ("return type(redis.call('get','none'))", "$7 boolean"),
        ("return redis.call('incr','n') + 1", ":2"),
        ("return type(redis.call('incr','n'))", "$6 number"),
        (
            "redis.call('rpush','l',1,2.5,'x'); return redis.call('lrange','l',0,-1)",
            "*3 $1 1 $3 2.5 $1 x",
        ),
        (
            "return redis.pcall('incr','k')['err']",
            "$43 ERR value is not an integer or out of range",
        ),
        (
            "redis.setresp(3); redis.call('hset','h','f','v'); return redis.call('hgetall','h').map.f",
            "$1 v",
        ),
        ("redis.setresp(3); return type(redis.call('get','none'))", "$3 nil"),
        (
            "redis.call('zadd','z',1.5,'m') redis.setresp(3); return redis.call('zscore','z','m').double * 2",
            ":3",
        ),
        (
            "redis.call('select',3); redis.call('set','k','other'); return redis.call('get','k')",
            "$5 other",
        ),
        ("return redis.call('get','k')", "$1 v"),
        ("return redis.call('ping').ok", "$4 PONG"),
        ("return redis.call('blpop','none',0)", "$-1"),
    ]);
}

#[test]
fn keys_and_arguments_are_tables() {
    let mut bench = Bench::new();
    let script = "return {KEYS[1],KEYS[2],ARGV[1],#KEYS,#ARGV}";
    let reply = eval_with(&mut bench, script, &["2", "a", "b", "c", "d"]);
    assert_eq!(reply, "*5 $1 a $1 b $1 c :2 :2");
    let text = "return {KEYS[1],KEYS[2],ARGV[1],ARGV[2]}";
    let digest = super::sha1_hex(text.as_bytes());
    let by_digest = format!("evalsha {} 1 a b", String::from_utf8_lossy(&digest).to_uppercase());
    assert_eq!(bench.run(&by_digest), "-NOSCRIPT No matching script. Please use EVAL.");
    assert_eq!(eval_with(&mut bench, text, &["1", "a", "b"]), "*1 $1 a");
    assert_eq!(bench.run(&by_digest), "*1 $1 a");
    for (command, reply) in [
        ("evalsha x 0", "-NOSCRIPT No matching script. Please use EVAL."),
        ("eval x 1", "-ERR Number of keys can't be greater than number of args"),
        ("eval x -1", "-ERR Number of keys can't be negative"),
        ("eval x y", "-ERR value is not an integer or out of range"),
        (
            "eval_ro \"return redis.call('set','k','v')\" 0",
            "-ERR Write commands are not allowed from read-only scripts.",
        ),
        ("eval_ro \"return redis.call('exists','k')\" 0", ":0"),
        (
            "eval \"#!lua flags=no-writes\\nreturn redis.call('set','k','v')\" 0",
            "-ERR Write commands are not allowed from read-only scripts.",
        ),
        ("eval \"#!lua\\nreturn redis.call('set','k','v')\" 0", "+OK"),
        (
            "eval_ro \"#!lua\\nreturn 1\" 0",
            "-ERR Can not execute a script with write flag using *_ro command.",
        ),
        ("eval \"#!lua flags=x\\nreturn 1\" 0", "-ERR Unexpected flag in script shebang: x"),
        ("eval \"#!python\\nreturn 1\" 0", "-ERR Unexpected engine in script shebang: #!python"),
        ("eval \"#!lua\" 0", "-ERR Invalid script shebang"),
    ] {
        let found = bench.run(command);
        assert_eq!(found.split(" script: ").next(), Some(reply), "{command}");
    }
}

#[test]
fn errors_are_redis_s_and_undo_the_script() {
    let mut bench = Bench::new();
    for (script, error) in [
        ("return redis.call('nosuchcommand')", "ERR Unknown Redis command called from script"),
        (
            "return redis.call('get','a','b')",
            "ERR Wrong number of args calling Redis command from script",
        ),
        (
            "return redis.call('eval','return 1',0)",
            "ERR This Redis command is not allowed from script",
        ),
        (
            "redis.call('set','k','v') redis.call('lpop','k')",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("redis.call('set','k','v') error('boom')", "ERR user_script:1: boom"),
        (
            "redis.call('set','k','v') return foo",
            "ERR user_script:1: Script attempted to access nonexistent global variable 'foo'",
        ),
        ("redis.call('set','k','v') error({err='MINE'})", "MINE"),
        (
            "redis.call('set','k','v') x = 1",
            "ERR user_script:1: Attempt to modify a readonly table",
        ),
        (
            "return string.format('%99999d', 1)",
            "ERR user_script:1: invalid format (width or precision too long)",
        ),
        (
            "return string.format('%d', 'x')",
            "ERR user_script:1: bad argument #2 to 'format' (number expected, got string)",
        ),
        (
            "local f = string.format\nreturn f()",
            "ERR user_script:2: bad argument #1 to 'format' (string expected, got no value)",
        ),
        (
            "local t = nil\nreturn t.x",
            "ERR user_script:2: attempt to index local 't' (a nil value)",
        ),
        ("redis.call()", "ERR Please specify at least one argument for this redis lib call"),
        (
            "redis.call('set', {})",
            "ERR Lua redis lib command arguments must be strings or integers",
        ),
    ] {
        let reply = eval(&mut bench, script);
        let line = if script.contains('\n') { 2 } else { 1 };
        let digest = super::sha1_hex(script.as_bytes());
        let digest = String::from_utf8_lossy(&digest);
        assert_eq!(
            reply,
            format!("-{error} script: {digest}, on @user_script:{line}."),
            "{script}"
        );
        assert_eq!(bench.run("exists k"), ":0", "{script}");
    }
    let reply = eval(&mut bench, "return {");
    assert!(
        reply.starts_with("-ERR Error compiling script (new function): user_script:1:"),
        "{reply}"
    );
    bench.check();
}

#[test]
fn caught_errors_undo_only_their_command() {
    play(&[
        (
            "redis.call('set','k','v'); redis.pcall('lpop','k'); return redis.call('get','k')",
            "$1 v",
        ),
        (
            "local ok, e = pcall(redis.call, 'lpop', 'k'); return {tostring(ok), e}",
            "*2 $5 false $65 WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("local ok, e = pcall(function() error('x') end); return e", "$16 user_script:1: x"),
        (
            "return select(2, xpcall(function() error('x', 0) end, function(e) return e .. '!' end))",
            "$2 x!",
        ),
        ("return redis.call('get','k')", "$1 v"),
    ]);
}

#[test]
fn a_script_leaves_nothing_to_the_next() {
    let mut bench = Bench::new();
    for trick in [
        "_G = {}",
        "redis = 1",
        "redis.call = function() return 1 end",
        "string.rep = nil",
        "setmetatable(_G, {})",
        "getmetatable(_G).__index = {}",
        "getmetatable('').__index = {}",
        "rawset(_G, 'x', 1)",
        "rawset(redis, 'call', 1)",
        "cjson.encode = 1",
        "KEYS = {}",
        "return newproxy(true)",
        "return io.open('/etc/passwd')",
        "return os.execute('true')",
        "return dofile('/etc/passwd')",
        "return debug.getinfo(1)",
        "return package.path",
        "return require('x')",
        "setfenv(0, {})",
        "setfenv(redis.call, {})",
        "return assert(loadstring(string.dump(function() end)))",
        "return assert(load(function() return nil end, nil, nil))()  .. {}",
    ] {
        let reply = eval(&mut bench, trick);
        assert!(reply.starts_with("-ERR "), "{trick}: {reply}");
    }
    for quiet in [
        "table.insert(redis, 1); table.insert(_G, 2); return 1",
        "collectgarbage('stop') return 1",
        "cjson.encode_max_depth(1) math.randomseed(7) return 1",
        "local f = loadstring('return 1') return f()",
        "getmetatable(_G) return 1",
    ] {
        let reply = eval(&mut bench, quiet);
        assert!(reply == ":1" || reply.starts_with("-ERR "), "{quiet}: {reply}");
        let found = eval(
            &mut bench,
            "return {redis[1] == nil, rawget(_G, 1) == nil, redis.call('ping').ok, cjson.encode({{1}}), 3}",
        );
        assert_eq!(found, "*5 :1 :1 $4 PONG $5 [[1]] :3", "after {quiet}");
    }
    assert_eq!(eval(&mut bench, "return rawget(_G, 'redis') == redis"), ":1");
    assert_eq!(
        eval(&mut bench, "for k in pairs(redis) do if k == 'call' then return 1 end end"),
        ":1"
    );
    assert_eq!(eval(&mut bench, "return type(os.clock())"), "$6 number");
}

#[test]
fn endless_scripts_are_ended_and_undone() {
    let mut bench = Bench::new();
    bench.limit_script(30);
    for script in [
        "redis.call('set','k','v') while true do end",
        "redis.call('set','k','v') while true do pcall(function() while true do end end) end",
        "while true do redis.pcall('set','k','v') end",
        // Patterns that are tried in more ways than can be counted.
        "redis.call('set','k','v') return string.find(string.rep('a', 5000), string.rep('a*', 20) .. 'b')",
        "return (string.rep('a', 5000):gsub(string.rep('.-', 20) .. 'b', {}))",
        "xpcall(function() while true do end end, function() while true do end end)",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do coroutine.wrap(function() while true do pcall(error) end end)() end",
        "local f f = function() return f() end f()",
        "setmetatable({}, {__index = function() while true do end end}).x = 1 return setmetatable({}, {__index = function() while true do end end}).x",
    ] {
        let began = std::time::Instant::now();
        let reply = eval(&mut bench, script);
        assert!(reply.contains("Script killed by user"), "{script}: {reply}");
        assert!(began.elapsed().as_secs() < 5, "{script}");
        assert_eq!(bench.run("exists k"), ":0", "{script}");
    }
    assert_eq!(eval(&mut bench, "return 1"), ":1");
}

#[test]
fn memory_is_bounded() {
    let mut bench = Bench::new();
    bench.limit_script(0);
    for script in [
        "return string.rep('x', 1000000000)",
        "local t = {} for i = 1, 1e9 do t[i] = string.rep('x', 100000) .. i end",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t = {t} end",
        "local function f() return f() + 1 end f()",
        "local a = {} a[1] = a; return cjson.encode(a)",
        "return cjson.decode(string.rep('[', 1000000))",
        "return cmsgpack.unpack(string.rep('\\221\\255\\255\\255\\255', 10000))",
        "return struct.unpack('c2147483647', 'x')",
        "return string.find(string.rep('a', 300000), string.rep('a?', 300000))",
        "return string.match('x', string.rep('(', 40))",
        "return loadstring(string.rep('(', 100000))()",
        "return cmsgpack.unpack(string.rep('\\1', 100000))",
        "return string.rep('x', 1000, 1, 2, 3):rep(1000000):rep(1000)",
    ] {
        let reply = eval(&mut bench, script);
        assert!(reply.starts_with("-ERR "), "{script}: {}", &reply[..reply.len().min(100)]);
        assert_eq!(eval(&mut bench, "return 1"), ":1", "{script}");
    }
    // A result that holds itself is cut.
    let reply = eval(&mut bench, "local a = {} a[1] = a return a");
    assert!(reply.ends_with("-ERR reached lua stack limit"), "{}", &reply[reply.len() - 40..]);
    bench.limit_reply(1 << 20);
    let reply = eval(&mut bench, "local a = {} a[1] = a a[2] = a return a");
    assert!(reply.starts_with("-ERR the reply is larger than"), "{}", &reply[..60]);
}

#[test]
fn libraries_are_there() {
    play(&[
        (
            "return cjson.encode({1,2,{a='b/c'}, cjson.null, true, 1.5})",
            "$32 [1,2,{\"a\":\"b\\/c\"},null,true,1.5]",
        ),
        ("return cjson.encode({})", "$2 {}"),
        // Each has settings of its own.
        (
            "local one, two = cjson.new(), cjson.new() one.encode_sparse_array(true, 1, 1) two.encode_number_precision(3) \
             local sparse = {[1]=1,[5]=2} \
             return {one.encode(sparse), two.encode(1/3), cjson.encode(1/3), one.new().encode(1/3), tostring(one.null == cjson.null), \
             tostring(pcall(two.decode, '{')), two._NAME}",
            "*7 $13 {\"1\":1,\"5\":2} $5 0.333 $16 0.33333333333333 $16 0.33333333333333 $4 true $5 false $5 cjson",
        ),
        (
            "return cjson.encode({[1]=1,[100]=2})",
            "-ERR user_script:1: Cannot serialise table: excessively sparse array",
        ),
        (
            "local t = cjson.decode('{\"a\":[1,2.5,\"\\\\u00e9\\\\ud83d\\\\ude00\"],\"b\":null}') return {t.a[1], tostring(t.a[2]), t.a[3], tostring(t.b == cjson.null)}",
            "*4 :1 $3 2.5 $6 é😀 $4 true",
        ),
        (
            "return select(2, pcall(cjson.decode, '{\"a\":}'))",
            "$49 Expected value but found T_OBJ_END at character 6",
        ),
        ("return cmsgpack.unpack(cmsgpack.pack({1,'a',{x=-5},1.5,false}))[3].x", ":-5"),
        (
            "local a, b = cmsgpack.unpack(cmsgpack.pack(70000, 'str')) return {a, b}",
            "*2 :70000 $3 str",
        ),
        ("local at, v = cmsgpack.unpack_one(cmsgpack.pack(1, 2), 1) return {at, v}", "*2 :-1 :2"),
        (
            "return {struct.unpack('>I2<I2bsd', struct.pack('>I2<I2bsd', 258, 258, -3, 'abc', 1.5))}",
            "*6 :258 :258 :-3 $3 abc :1 :18",
        ),
        ("return struct.pack('>HB', 1, 2):byte(2)", ":1"),
        ("return struct.size('!4 b i4')", ":8"),
        (
            "return {bit.band(7, 5, 4), bit.bor(1, 2), bit.bxor(3, 1), bit.bnot(0), bit.lshift(1, 31), bit.tohex(255), bit.rol(0x12345678, 12), bit.bswap(1)}",
            "*8 :4 :3 :2 :-1 :-2147483648 $8 000000ff :1164411171 :16777216",
        ),
        ("math.randomseed(1) return math.random(1000000)", ":41631"),
        ("return redis.REDIS_VERSION_NUM", ":459264"),
        ("return {string.find('key = value', '(%w+)%s*=%s*(%w+)')}", "*4 :1 :11 $3 key $5 value"),
        ("return {('abc'):gsub('%w', '%0%0')}", "*2 $6 aabbcc :3"),
        ("return {('hello world'):gsub('o', {o = '0'})}", "*2 $11 hell0 w0rld :2"),
        ("return {('abc'):gsub('', '-')}", "*2 $7 -a-b-c- :4"),
        (
            "local r = {} for k, v in ('a=1, b=2'):gmatch('(%w)=(%w)') do r[#r + 1] = k .. v end return r",
            "*2 $2 a1 $2 b2",
        ),
        ("return {('x'):gsub('x', function() return nil end)}", "*2 $1 x :1"),
        ("return ('THE (quick) fox'):find('%((%a+)%)')", ":5"),
        ("return ('f(a(b)c)d'):match('%b()')", "$7 (a(b)c)"),
        ("return ('THE quick'):gsub('%f[%a]%a+', string.lower)", "$9 the quick"),
        ("return select(2, pcall(string.find, 'a', '['))", "$31 malformed pattern (missing ']')"),
        (
            "return {string.format('%d %5.2f', 3, 1.5), table.concat({1,2}, ','), math.floor(2.7)}",
            "*3 $7 3  1.50 $3 1,2 :2",
        ),
    ]);
}
