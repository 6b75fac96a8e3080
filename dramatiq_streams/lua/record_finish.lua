--[[
Note how a message has ended under its key, unless a newer token was given since it started.

KEYS
  record   hash  the record of the key
  running  zset  key -> when the lease of its holder ends, in server milliseconds
ARGV
  key        str    the key
  token      int    the fencing token that the message started with
  state      str    done or failed
  arguments  str    the hash of the message's arguments
  message    str    the message's id
  result     bytes  what is to be replayed; empty for nothing
  ttl        int    milliseconds that the record is kept from now on
RETURNS
  int    1, also when it was noted before; or 0 when it came too late, and nothing has changed
]]
--- @include "now"

local record, running = KEYS[1], KEYS[2]
local key, token, state, arguments = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local message, result, ttl = ARGV[5], ARGV[6], ARGV[7]

local found = redis.call("HMGET", record, "token", "state")
local last = tonumber(found[1] or "0")
if last > tonumber(token) then
    return 0
end
if last == tonumber(token) and found[2] ~= "running" then
    return found[2] == state and 1 or 0
end
if state == "failed" and not found[1] then
    return 0
end
redis.call("HSET", record, "state", state, "token", token, "arguments", arguments,
    "message_id", message, "finished_ms", string.format("%.0f", now()))
redis.call("HDEL", record, "lease_end_ms")
if result ~= "" then
    redis.call("HSET", record, "result", result)
end
redis.call("PEXPIRE", record, ttl)
redis.call("ZREM", running, key)
return 1
