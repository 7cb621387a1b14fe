//! Libraries of functions, loaded and called.

use super::harness::Bench;

fn words(parts: &[&str]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.as_bytes().to_vec()).collect()
}

/// A reply with spaces for line ends.
fn ask(bench: &mut Bench, parts: &[&str]) -> String {
    let reply = bench.perform(&words(parts)).expect("a command on data");
    String::from_utf8_lossy(&reply).trim_end().replace("\r\n", " ")
}

fn load(bench: &mut Bench, code: &str) -> String {
    ask(bench, &["function", "load", "replace", code])
}

const LIBRARY: &str = "#!lua name=lib
local function next_of(value) return value + 1 end
redis.register_function('add', function(keys, arguments)
  redis.call('set', keys[1], next_of(tonumber(arguments[1])))
  return redis.call('get', keys[1])
end)
redis.register_function{function_name='count', callback=function(keys, arguments)
  return {#keys, #arguments}
end, flags={'no-writes', 'allow-oom'}, description='counts'}
redis.register_function('wrong', function() redis.call('set', 'left', 1) error('no') end)
redis.register_function('globals', function() return KEYS end)
redis.register_function('writes', function(keys) a = 1 end)
";

#[test]
fn libraries_are_loaded_and_called() {
    let mut bench = Bench::new();
    assert_eq!(load(&mut bench, LIBRARY), "$3 lib");
    for (command, reply) in [
        ("fcall add 1 k 41", "$2 42"),
        ("FCALL ADD 1 k 1", "$1 2"),
        ("fcall count 2 a b c", "*2 :2 :1"),
        ("fcall_ro count 0", "*2 :0 :0"),
        ("fcall_ro add 1 k 1", "-ERR Can not execute a script with write flag using *_ro command."),
        ("fcall wrong 0", "-ERR user_function:10: no script: wrong, on @user_function:10."),
        ("exists left", ":0"),
        (
            "fcall globals 0",
            "-ERR user_function:11: Script attempted to access nonexistent global variable 'KEYS' script: globals, on @user_function:11.",
        ),
        (
            "fcall writes 0",
            "-ERR user_function:12: Attempt to modify a readonly table script: writes, on @user_function:12.",
        ),
        ("fcall none 0", "-ERR Function not found"),
        ("fcall add x", "-ERR Bad number of keys provided"),
        ("fcall add 5 a", "-ERR Number of keys can't be greater than number of args"),
        (
            "function stats",
            "*4 $14 running_script $-1 $7 engines *2 $3 LUA *4 $15 libraries_count :1 $15 functions_count :5",
        ),
        ("function delete none", "-ERR Library not found"),
        ("flushall", "+OK"),
        ("fcall count 0", "*2 :0 :0"),
        ("function delete lib", "+OK"),
        ("fcall count 0", "-ERR Function not found"),
        ("function list", "*0"),
    ] {
        assert_eq!(bench.run(command), reply, "{command}");
    }
    bench.check();
}

#[test]
fn bad_libraries_are_refused() {
    let mut bench = Bench::new();
    let name = "#!lua name=lib\n";
    for (code, reply) in [
        ("return 1", "Missing library metadata"),
        ("#!lua name=lib", "Invalid library metadata"),
        ("#!lua\n", "Library name was not given"),
        ("#!lua name=a name=b\n", "Invalid metadata value, name argument was given multiple times"),
        ("#!lua name=a more\n", "Invalid metadata value given: more"),
        ("#!js name=a\n", "Engine 'js' not found"),
        (
            "#!lua name=a-b\n",
            "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        ),
        (&format!("{name}return 1"), "No functions registered"),
        (
            &format!("{name}local a = {{"),
            "Error compiling function: user_function:2: unexpected symbol near '<eof>'",
        ),
        (
            &format!("{name}redis.call('ping')"),
            "Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'call'",
        ),
        (
            &format!("{name}return math.pi"),
            "Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'math'",
        ),
        (
            &format!("{name}a = 1"),
            "Error registering functions: ERR user_function:2: Attempt to modify a readonly table",
        ),
        (
            &format!("{name}redis.register_function()"),
            "Error registering functions: ERR wrong number of arguments to redis.register_function",
        ),
        (
            &format!("{name}redis.register_function('f', 5)"),
            "Error registering functions: ERR second argument to redis.register_function must be a function",
        ),
        (
            &format!(
                "{name}redis.register_function{{function_name='f', callback=function() end, flags={{'x'}}}}"
            ),
            "Error registering functions: ERR unknown flag given",
        ),
        (
            &format!("{name}while true do end"),
            "Error registering functions: ERR FUNCTION LOAD timeout",
        ),
    ] {
        assert_eq!(load(&mut bench, code), format!("-ERR {reply}"), "{code}");
    }
    assert_eq!(load(&mut bench, LIBRARY), "$3 lib");
    assert_eq!(
        ask(&mut bench, &["function", "load", LIBRARY]),
        "-ERR Library 'lib' already exists"
    );
    let other = LIBRARY.replace("name=lib", "name=other");
    assert_eq!(load(&mut bench, &other), "-ERR Function add already exists");
    // What was refused has changed nothing.
    assert_eq!(load(&mut bench, &format!("{name}return 1")), "-ERR No functions registered");
    assert_eq!(bench.run("fcall count 0"), "*2 :0 :0");
    // What a library keeps of its loading is of no use later.
    let kept = "#!lua name=kept\nlocal own = redis\nredis.register_function('f', function() own.register_function('g', function() end) end)\nredis.register_function('h', function() own.math = math end)";
    assert_eq!(load(&mut bench, kept), "$4 kept");
    let late = "-ERR redis.register_function can only be called on FUNCTION LOAD command";
    assert!(bench.run("fcall f 0").starts_with(late));
    assert!(bench.run("fcall h 0").contains("Attempt to modify a readonly table"));
    bench.check();
}

#[test]
fn dumped_libraries_are_restored() {
    let mut bench = Bench::new();
    load(&mut bench, LIBRARY);
    let reply = bench.perform(&words(&["function", "dump"])).unwrap();
    let start = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let dumped = reply[start..reply.len() - 2].to_vec();
    let restore = |bench: &mut Bench, policy: &[&str]| {
        let mut parts = words(&["function", "restore"]);
        parts.push(dumped.clone());
        parts.extend(words(policy));
        String::from_utf8(bench.perform(&parts).unwrap()).unwrap().trim_end().to_owned()
    };
    assert_eq!(restore(&mut bench, &[]), "-ERR Library lib already exists");
    assert_eq!(restore(&mut bench, &["replace"]), "+OK");
    assert_eq!(bench.run("function flush"), "+OK");
    assert_eq!(restore(&mut bench, &["append"]), "+OK");
    assert_eq!(bench.run("fcall count 1 a"), "*2 :1 :0");
    assert_eq!(bench.run("function flush async"), "+OK");
    load(&mut bench, "#!lua name=two\nredis.register_function('COUNT', function() end)");
    assert_eq!(restore(&mut bench, &[]), "-ERR Function count already exists");
    assert_eq!(bench.run("fcall count 0"), "$-1");
    assert_eq!(restore(&mut bench, &["flush"]), "+OK");
    assert_eq!(
        ask(&mut bench, &["function", "restore", "x"]),
        "-ERR DUMP payload version or checksum are wrong"
    );
    bench.check();
}

/// The interpreter forgets what it knows when it has taken much memory, but not a library before it has run.
#[test]
fn a_large_library_is_called() {
    let mut bench = Bench::new();
    let code = "#!lua name=large\nlocal text = 'x' for i = 1, 25 do text = text .. text end
redis.register_function('count', function() return #text end)";
    assert_eq!(load(&mut bench, code), "$5 large");
    for _ in 0..2 {
        assert_eq!(ask(&mut bench, &["fcall", "count", "0"]), ":33554432");
    }
}
