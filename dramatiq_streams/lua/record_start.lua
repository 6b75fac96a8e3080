--[[
Note that a message starts under its key, and give it a fencing token above all before.

The token is the last one plus one, and at least the server's clock in microseconds: so it grows
also after the record has expired, or the server has lost it.

KEYS
  record   hash  the record of the key
  running  zset  key -> when the lease of its holder ends, in server milliseconds
ARGV
  key        str  the key
  arguments  str  the hash of the message's arguments
  message    str  the message's id
  owner      str  who starts: another one for each attempt
  consumer   str  the process
  lease      int  milliseconds until others may start, unless `record_keep` is called
  ttl        int  milliseconds that the record is kept
RETURNS
  array  "started", token; or as `record_look`, and nothing has changed
]]
--- @include "micros"
--- @include "verdict"

local record, running = KEYS[1], KEYS[2]
local key, arguments, message, owner, consumer = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local lease, ttl = tonumber(ARGV[6]), ARGV[7]

local micro = micros()
local time = math.floor(micro / 1000)
local last = redis.call("HMGET", record, "token", "owner", "state", "created_ms")
if last[2] == owner and last[3] == "running" then
    return { "started", last[1] }
end
local answer = verdict(record, arguments, time)
if answer then
    return answer
end
local token = string.format("%.0f", math.max(tonumber(last[1] or "0") + 1, micro))
local time_text, lease_end = string.format("%.0f", time), string.format("%.0f", time + lease)
redis.call("HINCRBY", record, "attempts", 1)
redis.call("HDEL", record, "result", "finished_ms")
redis.call("HSET", record, "state", "running", "token", token, "owner", owner,
    "consumer", consumer, "message_id", message, "arguments", arguments,
    "created_ms", last[4] or time_text, "started_ms", time_text, "lease_end_ms", lease_end)
redis.call("PEXPIRE", record, ttl)
redis.call("ZADD", running, lease_end, key)
-- Of messages that died with their worker and never ran again.
local forgotten = string.format("(%.0f", time - tonumber(ttl))
for _, old in ipairs(redis.call("ZRANGE", running, "-inf", forgotten, "BYSCORE", "LIMIT", 0, 10)) do
    redis.call("ZREM", running, old)
end
return { "started", token }
