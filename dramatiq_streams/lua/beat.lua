--[[
Note that a consumer is alive, and return those that may not be.

KEYS
  consumers    zset  consumer -> last heartbeat
  connections  hash  consumer -> ids of its connections
  host         hash  consumer -> identity of its process, of this host only
ARGV
  consumer   str  who is alive
  ids        str  the ids of its connections, with spaces between
  identity   str  its process; "" where others cannot check it
  host_ttl   int  milliseconds that `host` is kept without a heartbeat
  late       int  milliseconds after which a heartbeat is late
  limit      int  the most late consumers to return, the latest first
RETURNS
  array  server time, number of neighbours n; n times: consumer, identity;
         then for each late consumer: its name, its last heartbeat, ids of its connections
]]
--- @include "now"

local consumers, connections, host = KEYS[1], KEYS[2], KEYS[3]
local consumer, ids, identity, host_ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local late, limit = tonumber(ARGV[5]), ARGV[6]

-- What only removes comes first: a script that has written is not refused when memory is full,
-- and one whose heartbeat was refused would soon be taken for dead.
redis.call("HDEL", connections, consumer)
redis.call("HSET", connections, consumer, ids)
local time = now()
redis.call("ZADD", consumers, time, consumer)
local neighbours = {}
if identity ~= "" then
    redis.call("HSET", host, consumer, identity)
    redis.call("PEXPIRE", host, host_ttl)
    neighbours = redis.call("HGETALL", host)
end

local reply = { time, #neighbours / 2 }
for _, text in ipairs(neighbours) do
    table.insert(reply, text)
end
local overdue = redis.call(
    "ZRANGE", consumers, "-inf", time - late, "BYSCORE", "LIMIT", 0, limit, "WITHSCORES"
)
for index = 1, #overdue, 2 do
    table.insert(reply, overdue[index])
    table.insert(reply, overdue[index + 1])
    table.insert(reply, redis.call("HGET", connections, overdue[index]) or "")
end
return reply
