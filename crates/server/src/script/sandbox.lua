-- The sandbox of scripts. Scripts see none of the state's own globals, but copies behind proxies that they cannot
-- change: stock Lua 5.1 has no readonly tables.
--
-- `native` has the functions in Rust. Their errors are of a kind that scripts do not know: wherever a script can catch
-- one, it gets a plain value instead.
local native = ...
local state = _G
local error, type, tostring, next = error, type, tostring, next
local pcall, xpcall, resume = pcall, xpcall, coroutine.resume
local pairs, rawget, rawset = pairs, rawget, rawset
local setmetatable, getmetatable = setmetatable, getmetatable
local setfenv, loadstring = setfenv, loadstring
local collectgarbage, byte, concat = collectgarbage, string.byte, table.concat
local dead, place, value_of = native.dead, native.place, native.value_of

local READONLY = "Attempt to modify a readonly table"

local function refuse()
  error(READONLY, 2)
end

-- From a proxy to the table behind it.
local behind = {}
local proxies = {}
local seal = setmetatable({}, { __newindex = refuse, __metatable = false })
behind[seal] = {}

local function protect(table)
  local proxy = setmetatable({}, { __index = table, __newindex = refuse, __metatable = seal })
  behind[proxy] = table
  proxies[#proxies + 1] = proxy
  return proxy
end

local globals = setmetatable({}, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})
local environment = protect(globals)
-- Functions made from here on show scripts no other globals.
setfenv(1, environment)

local function copy(from, names)
  local to = {}
  for name in names:gmatch("%S+") do
    to[name] = from[name]
  end
  return to
end

for name, value in pairs(copy(state, [[assert tostring tonumber type select unpack error ipairs rawequal gcinfo
    _VERSION]])) do
  globals[name] = value
end
globals._G = environment

-- Errors. A script that is ended must not go on, whatever it catches errors with.
local function plain(failure)
  if type(failure) == "userdata" then
    return value_of(failure)
  end
  return failure
end

local function caught(succeeded, ...)
  if succeeded then
    return true, ...
  end
  local failure = ...
  if dead() then
    error(failure, 0)
  end
  return false, plain(failure)
end

-- As before Redis 7, an error of redis.call is caught as its text.
local function caught_text(succeeded, ...)
  if succeeded then
    return true, ...
  end
  local failure = ...
  if dead() then
    error(failure, 0)
  end
  failure = plain(failure)
  if type(failure) == "table" then
    local text = failure.err
    if type(text) == "string" or type(text) == "number" then
      return false, text
    end
  end
  return false, failure
end


globals.pcall = function(...)
  return caught_text(pcall(...))
end
globals.xpcall = function(body, handler)
  return caught(xpcall(body, function(failure)
    -- After an error in a hook no hook is called: a handler could then run for ever.
    if dead() then
      return failure
    end
    return handler(plain(failure))
  end))
end

local coroutines = copy(state.coroutine, "create running status wrap yield")
coroutines.resume = function(...)
  return caught(resume(...))
end
globals.coroutine = protect(coroutines)

-- Tables.
globals.next = function(table, key)
  return next(behind[table] or table, key)
end
globals.pairs = function(table)
  local contents = behind[table]
  if contents then
    return next, contents, nil
  end
  return pairs(table)
end
globals.rawget = function(table, key)
  return rawget(behind[table] or table, key)
end
globals.rawset = function(table, key, value)
  if behind[table] then
    error(READONLY, 0)
  end
  return rawset(table, key, value)
end
globals.setmetatable = function(table, metatable)
  if behind[table] then
    error(READONLY, 0)
  end
  return setmetatable(table, metatable)
end
globals.getmetatable = getmetatable

-- Code.
globals.loadstring = function(text, name)
  if type(text) == "string" and byte(text) == 27 then
    return nil, "compiled code cannot be loaded"
  end
  return loadstring(text, name)
end
globals.load = function(read, name)
  local parts = {}
  while true do
    local part = read()
    if part == nil or part == "" then
      break
    end
    parts[#parts + 1] = part
  end
  return globals.loadstring(concat(parts), name or "=(load)")
end
globals.collectgarbage = function(what, argument)
  if what == nil or what == "collect" or what == "count" or what == "step" then
    return collectgarbage(what, argument)
  end
  return 0
end

-- Libraries.
-- Patterns are matched by functions that can be ended (`patterns.rs`): also those that strings have as methods.
local patterns, strings = native.patterns, state.string
local next_match, substitute, sub = patterns.next, patterns.substitute, strings.sub
strings.find = patterns.find
strings.match = patterns.match
strings.gmatch = function(text, pattern)
  local at = 1
  local function take(first, last, ...)
    if first == nil then
      at = #text + 2
      return nil
    end
    -- After an empty match the next one begins behind the next byte.
    at = last >= first and last + 1 or first + 1
    return ...
  end
  text = text .. ""
  return function()
    if at > #text + 1 then
      return nil
    end
    return take(next_match(text, pattern, at))
  end
end
strings.gfind = strings.gmatch
strings.gsub = function(text, pattern, new, most)
  local kind = type(new)
  if kind == "string" or kind == "number" then
    return substitute(text, pattern, new, most)
  elseif kind ~= "table" and kind ~= "function" then
    error("bad argument #3 to 'gsub' (string/function/table expected)", 2)
  end
  local parts, at, count = {}, 1, 0
  local anchored = byte(pattern, 1) == 94
  local function replace(first, last, ...)
    if first == nil then
      return false
    end
    local whole = sub(text, first, last)
    local value
    if kind == "table" then
      value = new[(...)]
    else
      value = new(...)
    end
    if not value then
      value = whole
    elseif type(value) ~= "string" and type(value) ~= "number" then
      error("invalid replacement value (a " .. type(value) .. ")", 3)
    end
    parts[#parts + 1] = sub(text, at, first - 1)
    parts[#parts + 1] = value
    at = last + 1
    if last < first then
      parts[#parts + 1] = sub(text, first, first)
      at = first + 1
    end
    return true
  end
  text = text .. ""
  while (most == nil or count < most) and at <= #text + 1 do
    if not replace(next_match(text, pattern, at)) then
      break
    end
    count = count + 1
    if anchored then
      break
    end
  end
  parts[#parts + 1] = sub(text, at)
  return concat(parts), count
end
globals.string = protect(copy(
  strings, "byte char dump find format gfind gmatch gsub len lower match rep reverse sub upper"))
globals.table = protect(copy(
  state.table, "concat foreach foreachi getn insert maxn remove setn sort"))
local mathematics = copy(state.math, [[abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp log
    log10 max min mod modf pi pow rad sin sinh sqrt tan tanh]])
mathematics.random = native.random
mathematics.randomseed = native.randomseed
globals.math = protect(mathematics)
globals.os = protect({ clock = native.clock })
globals.bit = protect(native.bit)
globals.cjson = protect(native.cjson)
globals.cmsgpack = protect(native.cmsgpack)
globals.struct = protect(native.struct)

-- Redis's own functions. `call` and `pcall` are made for each script.
local redis = native.redis
redis.replicate_commands = function()
  return true
end
redis.breakpoint = function()
  return false
end
redis.debug = function()
end
globals.redis = protect(redis)

-- What is left of the state's own globals leads to no files.
for name in pairs(copy(state, "dofile loadfile load loadstring newproxy print module require")) do
  state[name] = nil
end
-- Scripts do not get at the metatable of strings.
getmetatable("").__metatable = seal
local function handler(value)
  local source, line = place()
  return { value = plain(value), source = source, line = line }
end

-- Runs a script. Returns whether it succeeded, and its result, or its error and the place of that.
local function run(script, keys, arguments, call, protected_call)
  redis.call = call
  redis.pcall = protected_call
  setfenv(script, environment)
  rawset(globals, "KEYS", keys)
  rawset(globals, "ARGV", arguments)
  local succeeded, value = xpcall(script, handler)
  redis.call = nil
  redis.pcall = nil
  globals.KEYS = nil
  globals.ARGV = nil
  -- table.insert and its kind get past a proxy.
  for at = 1, #proxies do
    local proxy = proxies[at]
    while next(proxy) ~= nil do
      rawset(proxy, next(proxy), nil)
    end
  end
  return succeeded, value
end

return environment, run
