//! The scripts of shared pairs. Values are `EXPIRES:VALUE`, with the engine's milliseconds since 1970, 0 for never.

use tidegate_store::Script;

/// Returns epoch (empty without pairs), the number of the last change, the engine's time, and the changes behind a number.
/// KEYS: meta, changes. ARGV: the number, and how many changes.
pub(super) static CHANGES: Script = Script::new(
    "local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'number')
if not meta[1] then return {'', 0, now, {}} end
local number = tonumber(meta[2]) or 0
local changes = {}
if number > tonumber(ARGV[1]) then
  local from = string.format('%.0f-0', ARGV[1] + 1)
  changes = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', ARGV[2])
end
return {meta[1], number, now, changes}",
);

/// Makes the pairs of a server those of an engine that has none. KEYS: meta, changes, pairs, expiries, and the server's pairs,
/// whose times are what is left. ARGV: the epoch, and the number of these pairs.
pub(super) static GIVE: Script = Script::new(
    "if redis.replicate_commands then redis.replicate_commands() end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('HEXISTS', KEYS[1], 'epoch') == 1 then
  redis.call('DEL', KEYS[5])
  return 0
end
local all = redis.call('HGETALL', KEYS[5])
if #all ~= 2 * ARGV[2] then
  redis.call('DEL', KEYS[5])
  return 0
end
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
for i = 1, #all, 2 do
  local left, value = string.match(all[i + 1], '^(%d+):(.*)$')
  local expires = 0
  if tonumber(left) > 0 then
    expires = now + left
    redis.call('ZADD', KEYS[4], string.format('%.0f', expires), all[i])
  end
  redis.call('HSET', KEYS[3], all[i], string.format('%.0f:', expires) .. value)
end
redis.call('DEL', KEYS[5])
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'number', 0)
return 1",
);

/// Changes pairs. KEYS: meta, changes, pairs, expiries. ARGV: `add` (only where the key is new), `put`, `fill` (only where
/// there are no pairs), each with key, value and milliseconds (0: for ever); `change` (only where the key is there), the same,
/// but `change-time` without a value; `remove` with key; `clear`. `fill` has any number of pairs. Returns what came of it, and
/// the number of the last change.
pub(super) static WRITE: Script = Script::new(
    "if redis.replicate_commands then redis.replicate_commands() end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('HEXISTS', KEYS[1], 'epoch') == 0 then return {'EMPTY', 0} end
local op = ARGV[1]
local function log(...)
  local number = redis.call('HINCRBY', KEYS[1], 'number', 1)
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', '10000', string.format('%.0f-0', number), ...)
end
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', string.format('%.0f', now), 'LIMIT', 0, 64)) do
  redis.call('HDEL', KEYS[3], key)
  redis.call('ZREM', KEYS[4], key)
end
local function find(key)
  local known = redis.call('HGET', KEYS[3], key)
  if not known then return nil end
  local expires, value = string.match(known, '^(%d+):(.*)$')
  if not expires or (tonumber(expires) > 0 and tonumber(expires) <= now) then return nil end
  return value
end
local function set(key, value, left)
  local expires = 0
  if tonumber(left) > 0 then
    expires = now + left
    redis.call('ZADD', KEYS[4], string.format('%.0f', expires), key)
  else
    redis.call('ZREM', KEYS[4], key)
  end
  local stored = string.format('%.0f:', expires) .. value
  redis.call('HSET', KEYS[3], key, stored)
  log('set', key, 'to', stored)
end
local done = 'OK'
local known = ARGV[2] and find(ARGV[2])
if op == 'clear' then
  redis.call('DEL', KEYS[3], KEYS[4])
  log('clear', '')
elseif op == 'fill' then
  if redis.call('HLEN', KEYS[3]) > 0 then done = 'FILLED' else
    for i = 2, #ARGV, 3 do set(ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
  end
elseif op == 'add' and known then done = 'EXISTS'
elseif op == 'add' or op == 'put' then set(ARGV[2], ARGV[3], ARGV[4])
elseif not known then done = 'MISSING'
elseif op == 'change' then set(ARGV[2], ARGV[3], ARGV[4])
elseif op == 'change-time' then set(ARGV[2], known, ARGV[4])
elseif op == 'remove' then
  redis.call('HDEL', KEYS[3], ARGV[2])
  redis.call('ZREM', KEYS[4], ARGV[2])
  log('remove', ARGV[2])
end
return {done, tonumber(redis.call('HGET', KEYS[1], 'number'))}",
);
