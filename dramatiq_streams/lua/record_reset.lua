--[[
Free a key for whoever comes next; its token stays, so that a late holder is still told from others.

KEYS
  record   hash  the record of the key
  running  zset  key -> when the lease of its holder ends, in server milliseconds
ARGV
  key  str  the key
RETURNS
  int    1, or 0 when there is no such record, or it is free for any message already
]]

local record, running = KEYS[1], KEYS[2]
local key = ARGV[1]

redis.call("ZREM", running, key)
local found = redis.call("HMGET", record, "state", "arguments")
if not found[1] or (found[1] == "pending" and not found[2]) then
    return 0
end
redis.call("HSET", record, "state", "pending")
redis.call("HDEL", record, "owner", "consumer", "arguments", "lease_end_ms",
    "finished_ms", "result")
return 1
