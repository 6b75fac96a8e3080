--[[
Remove a consumer that holds nothing and has gone; one that holds anything stays.

KEYS
  consumers    zset    consumer -> last heartbeat
  connections  hash    consumer -> ids of its connections
  host         hash    consumer -> identity of its process, of one host only
  wake         stream  wakes a consumer to wait for the earliest eta, of which this one knew
  delayed      zset    delivery id -> eta
  lanes...     stream  highest first
ARGV
  group      str  the consumer group
  consumer   str  who has gone
  heartbeat  str  its heartbeat, if it has sent no other; "" when it is certainly gone
RETURNS
  int        1 when it was removed, else 0
]]
--- @include "wake_one"

local consumers, connections, host, wake, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local lanes = { unpack(KEYS, 6) }
local group, consumer, heartbeat = ARGV[1], ARGV[2], ARGV[3]

local last = redis.call("ZSCORE", consumers, consumer)
if heartbeat ~= "" and last and tonumber(last) ~= tonumber(heartbeat) then
    return 0
end
for _, lane in ipairs(lanes) do
    local held = redis.pcall("XPENDING", lane, group, "-", "+", 1, consumer)
    if not held.err and #held > 0 then
        return 0
    end
end
for _, stream in ipairs({ wake, unpack(lanes) }) do
    redis.pcall("XGROUP", "DELCONSUMER", stream, group, consumer)
end
redis.call("ZREM", consumers, consumer)
redis.call("HDEL", connections, consumer)
redis.call("HDEL", host, consumer)
if redis.call("EXISTS", delayed) == 1 then
    wake_one(wake)
end
return 1
