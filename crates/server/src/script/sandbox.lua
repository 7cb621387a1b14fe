-- The sandbox of scripts. Scripts see none of the state's own globals, but copies behind proxies that they cannot
-- change: stock Lua 5.1 has no readonly tables.
--
-- `native` has the functions in Rust. Their errors are of a kind that scripts do not know: wherever a script can catch
-- one, it gets a plain value instead.
--
-- No function that scripts get may hand out a table that scripts share, or write to one. Each that may take long looks
-- at the script's time first: C counts no instructions.
local native = ...
local state = _G
local error, type, tostring, next, select = error, type, tostring, next, select
local pcall, xpcall, resume = pcall, xpcall, coroutine.resume
local create, wrap = coroutine.create, coroutine.wrap
local pairs, rawget, rawset = pairs, rawget, rawset
local setmetatable, getmetatable = setmetatable, getmetatable
local setfenv, loadstring, collectgarbage = setfenv, loadstring, collectgarbage
local byte, find, sub, match = string.byte, string.find, string.sub, string.match
local concat, insert, remove, maxn = table.concat, table.insert, table.remove, table.maxn
local floor = math.floor
local dead, look, fail, place, value_of = native.dead, native.look, native.fail, native.place, native.value_of

local READONLY = "Attempt to modify a readonly table"
-- Strings and tables that are longer are worth a look at the time.
local LONG = 10000

local function refuse()
  error(READONLY, 2)
end

-- From a proxy to the table behind it.
local behind = {}

local function protect(table)
  local proxy = setmetatable({}, { __index = table, __newindex = refuse, __metatable = false })
  behind[proxy] = table
  return proxy
end

local globals = setmetatable({}, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})
-- Libraries see other globals while they are loaded.
local scope = { __index = globals, __newindex = refuse, __metatable = false }
local environment = setmetatable({}, scope)
behind[environment] = globals
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
  -- An error in a function of this file has a place in it.
  if type(failure) == "string" and sub(failure, 1, 8) == "sandbox:" then
    return match(failure, "^sandbox:%d+: (.*)$") or failure
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
local function with_text(succeeded, ...)
  if succeeded then
    return true, ...
  end
  local failure = ...
  if type(failure) == "table" then
    local text = failure.err
    if type(text) == "string" or type(text) == "number" then
      return false, text
    end
  end
  return false, failure
end


globals.pcall = function(...)
  return with_text(caught(pcall(...)))
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

local coroutines = copy(state.coroutine, "running status yield")
-- A new coroutine counts its instructions from zero.
coroutines.create = function(body)
  look()
  return create(body)
end
coroutines.wrap = function(body)
  look()
  return wrap(body)
end
coroutines.resume = function(...)
  return caught(resume(...))
end
globals.coroutine = protect(coroutines)

-- Tables.
globals.next = function(table, key)
  return next(behind[table] or table, key)
end
globals.pairs = function(table)
  if behind[table] then
    return globals.next, table, nil
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
-- What it returns of a shared table is made each time, as nothing stops a function in C from writing to it.
globals.getmetatable = function(value)
  if type(value) == "string" or behind[value] then
    return setmetatable({}, { __newindex = refuse, __metatable = false })
  end
  return getmetatable(value)
end

-- Code.
globals.loadstring = function(text, name)
  if type(text) == "string" and byte(text) == 27 then
    return nil, "compiled code cannot be loaded"
  end
  look()
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
    look()
    return collectgarbage(what, argument)
  end
  return 0
end

-- Strings.
local strings = copy(state.string, "byte char dump len sub")
for name, value in pairs(native.string) do
  strings[name] = value
end

local match_arguments, match_step = native.gmatch_arguments, native.gmatch_step
strings.gmatch = function(...)
  local subject, pattern = match_arguments(...)
  local at = 0
  local function matched(after, ...)
    at = after or at
    return ...
  end
  return function()
    return matched(match_step(subject, pattern, at))
  end
end
strings.gfind = strings.gmatch

local sub_arguments, sub_step, sub_string = native.gsub_arguments, native.gsub_step, native.gsub
strings.gsub = function(...)
  local subject, pattern, most = sub_arguments(...)
  local replacement = select(3, ...)
  local kind = type(replacement)
  if kind ~= "function" and kind ~= "table" then
    return sub_string(subject, pattern, replacement, most)
  end
  local parts, at, count = {}, 0, 0
  local function replace(first, after, ...)
    if first == nil then
      return false
    end
    count = count + 1
    local value
    if kind == "function" then
      value = replacement(...)
    else
      value = replacement[(...)]
    end
    if not value then
      value = sub(subject, first + 1, after)
    elseif type(value) ~= "string" and type(value) ~= "number" then
      error("invalid replacement value (a " .. type(value) .. ")", 3)
    end
    parts[#parts + 1] = sub(subject, at + 1, first)
    parts[#parts + 1] = value
    at = after
    if first < after then
      return true
    end
    parts[#parts + 1] = sub(subject, at + 1, at + 1)
    at = at + 1
    return at <= #subject
  end
  while count < most and replace(sub_step(subject, pattern, at, kind == "table")) do
  end
  parts[#parts + 1] = sub(subject, at + 1)
  look()
  return concat(parts), count
end
getmetatable("").__index = strings
globals.string = protect(strings)

-- Tables.
local function check_table(table, name)
  if type(table) ~= "table" then
    error("bad argument #1 to '" .. name .. "' (table expected, got " .. type(table) .. ")", 3)
  end
end

local function check_own(table)
  if behind[table] then
    error(READONLY, 3)
  end
end

local tables = copy(state.table, "getn setn")
tables.concat = function(...)
  look()
  return concat(...)
end
tables.insert = function(table, ...)
  check_own(table)
  if select("#", ...) > 1 and type(table) == "table" and #table > LONG then
    look()
  end
  return insert(table, ...)
end
tables.remove = function(table, ...)
  check_own(table)
  if select("#", ...) > 0 and type(table) == "table" and #table > LONG then
    look()
  end
  return remove(table, ...)
end
tables.maxn = function(...)
  look()
  return maxn(...)
end
tables.foreach = function(table, body)
  check_table(table, "foreach")
  for key, value in next, table do
    local result = body(key, value)
    if result ~= nil then
      return result
    end
  end
end
tables.foreachi = function(table, body)
  check_table(table, "foreachi")
  for index = 1, #table do
    local result = body(index, rawget(table, index))
    if result ~= nil then
      return result
    end
  end
end

-- As Lua 5.1 sorts, with the same calls of `less`. In Lua its instructions are counted: a quicksort may take long.
local function quicksort(table, low, high, less)
  while low < high do
    if less(table[high], table[low]) then
      table[low], table[high] = table[high], table[low]
    end
    if high - low == 1 then
      return
    end
    local middle = floor((low + high) / 2)
    if less(table[middle], table[low]) then
      table[middle], table[low] = table[low], table[middle]
    elseif less(table[high], table[middle]) then
      table[middle], table[high] = table[high], table[middle]
    end
    if high - low == 2 then
      return
    end
    local pivot = table[middle]
    table[middle], table[high - 1] = table[high - 1], pivot
    local left, right = low, high - 1
    while true do
      left = left + 1
      while less(table[left], pivot) do
        if left > high then
          fail("invalid order function for sorting")
        end
        left = left + 1
      end
      right = right - 1
      while less(pivot, table[right]) do
        if right < low then
          fail("invalid order function for sorting")
        end
        right = right - 1
      end
      if right < left then
        break
      end
      table[left], table[right] = table[right], table[left]
    end
    table[high - 1], table[left] = table[left], table[high - 1]
    -- The smaller part is sorted first, so that the calls are not nested deep.
    if left - low < high - left then
      quicksort(table, low, left - 1, less)
      low = left + 1
    else
      quicksort(table, left + 1, high, less)
      high = left - 1
    end
  end
end

local function is_less(left, right)
  return left < right
end

tables.sort = function(table, less)
  check_table(table, "sort")
  check_own(table)
  if less ~= nil and type(less) ~= "function" then
    error("bad argument #2 to 'sort' (function expected, got " .. type(less) .. ")", 2)
  end
  quicksort(table, 1, #table, less or is_less)
end
globals.table = protect(tables)

-- Libraries.
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
getmetatable("").__metatable = false

local function handler(failure)
  local source, line = place()
  local value = plain(failure)
  if value ~= failure and type(failure) == "string" and line then
    -- The function's own place is replaced by its caller's.
    value = sub(source, 2) .. ":" .. line .. ": " .. value
  end
  return { value = value, source = source, line = line }
end

-- Runs a script, or a function with its keys and arguments. Returns whether it succeeded, and its result, or its error
-- and the place of that.
local function run(script, keys, arguments)
  if keys then
    return xpcall(function()
      return script(keys, arguments)
    end, handler)
  end
  return xpcall(script, handler)
end

-- Libraries of functions. `registered` is the list of those of the library that is being loaded.
local registered

local function refuse_function(text)
  error({ err = "ERR " .. text }, 0)
end

local function is_text(value)
  return type(value) == "string" or type(value) == "number"
end

local FLAGS = {
  ["no-writes"] = 1,
  ["allow-oom"] = 2,
  ["allow-stale"] = 4,
  ["no-cluster"] = 8,
  ["allow-cross-slot-keys"] = 16,
}

local function read_flags(names)
  local flags, seen = 0, {}
  local index = 1
  while names[index] ~= nil do
    local name = names[index]
    index = index + 1
    local flag = is_text(name) and FLAGS[native.lower(name)]
    if not flag then
      refuse_function("unknown flag given")
    end
    if not seen[flag] then
      seen[flag] = true
      flags = flags + flag
    end
  end
  return flags
end

local function named_arguments(given)
  if type(given) ~= "table" then
    refuse_function("calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).")
  end
  local found = { flags = 0 }
  for key, value in next, given do
    if not is_text(key) then
      refuse_function("named argument key given to redis.register_function is not a string")
    end
    key = native.lower(key)
    if key == "function_name" then
      if not is_text(value) then
        refuse_function("function_name argument given to redis.register_function must be a string")
      end
      found.name = tostring(value)
    elseif key == "description" then
      if not is_text(value) then
        refuse_function("description argument given to redis.register_function must be a string")
      end
      found.description = tostring(value)
    elseif key == "callback" then
      if type(value) ~= "function" then
        refuse_function("callback argument given to redis.register_function must be a function")
      end
      found.callback = value
    elseif key == "flags" then
      if type(value) ~= "table" then
        refuse_function("flags argument to redis.register_function must be a table representing function flags")
      end
      found.flags = read_flags(value)
    else
      refuse_function("unknown argument given to redis.register_function")
    end
  end
  if not found.name then
    refuse_function("redis.register_function must get a function name argument")
  end
  if not found.callback then
    refuse_function("redis.register_function must get a callback argument")
  end
  return found
end

local function positional_arguments(name, callback)
  if not is_text(name) then
    refuse_function("first argument to redis.register_function must be a string")
  end
  if type(callback) ~= "function" then
    refuse_function("second argument to redis.register_function must be a function")
  end
  return { name = tostring(name), callback = callback, flags = 0 }
end

local registering = { register_function = function(...)
  if not registered then
    refuse_function("redis.register_function can only be called on FUNCTION LOAD command")
  end
  local count = select("#", ...)
  if count < 1 or count > 2 then
    refuse_function("wrong number of arguments to redis.register_function")
  end
  local found = count == 1 and named_arguments(...) or positional_arguments(...)
  if not find(found.name, "^[%w_]+$") then
    refuse_function("Library names can only contain letters, numbers, or underscores(_) and must be at least one character long")
  end
  local name = native.lower(found.name)
  if registered[name] then
    refuse_function("Function already exists in the library")
  end
  registered[name] = true
  registered[#registered + 1] = found
end }
for name, value in next, copy(redis, [[log LOG_DEBUG LOG_VERBOSE LOG_NOTICE LOG_WARNING REDIS_VERSION
    REDIS_VERSION_NUM]]) do
  registering[name] = value
end
local missing = getmetatable(globals)
setmetatable(registering, missing)
local library_globals = setmetatable({ redis = protect(registering) }, missing)

-- Runs a library's code. Returns whether it succeeded, and the functions that it has registered, or its error.
local function load(code)
  registered, scope.__index, behind[environment] = {}, library_globals, library_globals
  local succeeded, failure = xpcall(code, handler)
  local functions = registered
  registered, scope.__index, behind[environment] = nil, globals, globals
  return succeeded, succeeded and functions or failure
end

return environment, globals, redis, run, load
