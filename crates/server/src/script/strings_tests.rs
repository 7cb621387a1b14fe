//! The string functions compared with those of stock Lua 5.1.

use crate::command::harness::Bench;
use mlua::{Lua, LuaOptions, StdLib};
use perdura_memory::random::SplitMix64;
use perdura_testing::seeds;

/// Runs all functions with patterns on triples of arguments: a pattern, a subject and a replacement.
const PATTERNS: &str = r#"
local out = {}
local function show(...)
  local parts = {}
  for index = 1, select('#', ...) do
    local value = select(index, ...)
    parts[index] = type(value) .. ':' .. tostring(value)
  end
  out[#out + 1] = table.concat(parts, '|')
end
local function all(pattern, subject)
  for a, b in string.gmatch(subject, pattern) do
    show(a, b)
  end
end
for index = 1, #ARGV, 3 do
  local pattern, subject, text = ARGV[index], ARGV[index + 1], ARGV[index + 2]
  show(pcall(string.find, subject, pattern))
  show(pcall(string.find, subject, pattern, -3))
  show(pcall(string.find, subject, pattern, 2, true))
  show(pcall(string.match, subject, pattern, 2))
  show(pcall(string.gsub, subject, pattern, text))
  show(pcall(string.gsub, subject, pattern, text, 1))
  show(pcall(string.gsub, subject, pattern, { a = 'A', b = false, ['1'] = 1 }))
  show(pcall(string.gsub, subject, pattern, function(a, b)
    return b or (a == 'a' and 5) or nil
  end, 3))
  show(pcall(all, pattern, subject))
end
return table.concat(out, '\n')
"#;

const REST: &str = r#"
local out = {}
local function show(...)
  local parts = {}
  for index = 1, select('#', ...) do
    parts[index] = tostring((select(index, ...)))
  end
  out[#out + 1] = table.concat(parts, '|')
end
for _, text in ipairs({'', 'aZ\0\255[', 12}) do
  show(pcall(string.lower, text))
  show(pcall(string.upper, text))
  show(pcall(string.reverse, text))
  for _, count in ipairs({-1, 0, 1, 3, 2.9, '2', 'x', 2^31, 2^32 + 1, {}}) do
    show(pcall(function() return string.rep(text, count) end))
  end
end
for _, args in ipairs({{}, {1}, {'a'}, {'a', {}}, {'a', 'a', {}}, {'a', 'a', true}, {'a', 'a', 'b', 'c'},
    {'a', 'a', function() return {} end}, {'a', 'a', {a = true}}, {'a', 'a', 'b', 0/0}}) do
  for _, name in ipairs({'find', 'match', 'gmatch', 'gsub'}) do
    local ok, text = pcall(function() local a = string[name](unpack(args)) return type(a) end)
    -- A function that is called by no name has none in stock Lua's errors.
    show(name, ok, (string.gsub(text, "'%?'", "'" .. name .. "'")))
  end
end
local function sorted(list, less)
  local ok, text = pcall(function() table.sort(list, less) end)
  for index = 1, #list do
    list[index] = tostring(list[index])
  end
  show(ok, ok or text, unpack(list))
end
local seed = 1
for len = 0, 60 do
  local list, words = {}, {}
  for index = 1, len do
    seed = (seed * 16807) % 2147483647
    list[index], words[index] = seed % 40, tostring(seed % 40)
  end
  sorted(words)
  -- Equal elements differ in their order only if other pairs are compared.
  local tens = {}
  for index = 1, len do
    tens[index] = list[index] + index / 100
  end
  sorted(tens, function(a, b) return math.floor(a) > math.floor(b) end)
  sorted(list)
end
sorted({3, 1, 2, 5, 4, 7, 6}, function() return true end)
show(pcall(table.foreach, {5, x = 6}, function(k, v) return v == 6 and k or nil end))
show(pcall(table.foreachi, {5, 6, x = 7}, function(k, v) return v == 6 and k or nil end))
local list = {1, 2, 3}
table.insert(list, 4)
table.insert(list, 1, 0)
show(table.remove(list), table.remove(list, 2), table.concat(list, ','), table.maxn(list), table.getn(list))
show(pcall(table.insert, list, 1, 2, 3))
show(pcall(table.remove, {}))
return table.concat(out, '\n')
"#;

/// Results of a script in stock Lua.
fn stock(script: &str, args: &[Vec<u8>]) -> Vec<u8> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::new()).unwrap();
    let values = args.iter().map(|arg| lua.create_string(arg).unwrap());
    lua.globals().set("ARGV", lua.create_sequence_from(values).unwrap()).unwrap();
    let result: mlua::LuaString = lua.load(script).set_name("@user_script").call(()).unwrap();
    result.as_bytes().to_vec()
}

/// A bench whose scripts are not ended on a slow machine.
fn patient() -> Bench {
    let mut bench = Bench::new();
    bench.limit_script(0);
    bench
}

fn ours(bench: &mut Bench, script: &str, args: &[Vec<u8>]) -> Vec<u8> {
    let mut request = vec![b"eval".to_vec(), script.as_bytes().to_vec(), b"0".to_vec()];
    request.extend_from_slice(args);
    let reply = bench.perform(&request).unwrap();
    let start = reply.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    assert_eq!(reply[0], b'$', "{}", String::from_utf8_lossy(&reply));
    reply[start..reply.len() - 2].to_vec()
}

fn assert_same(bench: &mut Bench, script: &str, args: &[Vec<u8>], what: &str) {
    let (stock, ours) = (stock(script, args), ours(bench, script, args));
    let lines = |text: &[u8]| {
        String::from_utf8_lossy(text).split('\n').map(str::to_owned).collect::<Vec<_>>()
    };
    for (index, (stock, ours)) in lines(&stock).iter().zip(&lines(&ours)).enumerate() {
        assert_eq!(ours, stock, "{what}, line {index}");
    }
    assert!(stock == ours, "{what}");
}

fn pick(rng: &mut SplitMix64, pieces: &[&[u8]], most: u64) -> Vec<u8> {
    let count = rng.below(most + 1);
    (0..count).flat_map(|_| pieces[rng.below(pieces.len() as u64) as usize].to_vec()).collect()
}

#[test]
fn patterns_are_those_of_stock_lua() {
    const PATTERN: &[&[u8]] = &[
        b"a", b"b", b"c", b"1", b"%a", b"%d", b"%w", b"%s", b"%z", b"%A", b"%x", b"%p", b"%c",
        b"%u", b"%l", b"%W", b".", b"[ab]", b"[^a]", b"[a-c]", b"[%a_]", b"[]]", b"[^]]", b"[a-]",
        b"[%]]", b"[^%s-]", b"%b()", b"%bxy", b"%f[%w]", b"%f[^a]", b"%f", b"(", b")", b"(", b")",
        b"(a)", b"(.-)", b"()", b"%1", b"%2", b"%0", b"*", b"+", b"-", b"?", b"*", b"-", b"^",
        b"$", b"%%", b"%", b"[", b"]", b"\0", b"\xff", b"%b", b"-", b"%.",
    ];
    const SUBJECT: &[&[u8]] = &[
        b"a", b"a", b"b", b"c", b"1", b" ", b"(", b")", b"x", b"y", b"_", b"\0", b"\xff", b"]",
        b"-", b"Z", b".", b"^",
    ];
    const TEXT: &[&[u8]] = &[b"x", b"%0", b"%1", b"%2", b"%%", b"%", b"%a", b"\0"];
    let mut bench = patient();
    for seed in seeds(0, 200) {
        println!("PERDURA_TEST_SEED={seed}");
        let mut rng = SplitMix64::new(seed);
        let mut args = Vec::new();
        for _ in 0..50 {
            args.push(pick(&mut rng, PATTERN, 7));
            args.push(pick(&mut rng, SUBJECT, 10));
            args.push(pick(&mut rng, TEXT, 3));
        }
        let shown: Vec<_> = args.chunks(3).map(|one| one[0].escape_ascii().to_string()).collect();
        assert_same(&mut bench, PATTERNS, &args, &format!("{shown:?}"));
    }
}

#[test]
fn other_functions_are_those_of_stock_lua() {
    assert_same(&mut patient(), REST, &[], "functions");
}
