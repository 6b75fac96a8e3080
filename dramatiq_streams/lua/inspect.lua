--[[
Look at a queue, all of it at one instant; nothing is changed.

KEYS
  paused     string  since when the queue is paused
  cancelled  zset    marks of what is to be dropped
  counts     hash    what was counted
  delayed    zset    delivery id -> eta
  dead       stream  dead letters
  consumers  zset    consumer -> last heartbeat
  lanes...   stream  highest first
ARGV
  group     str   the consumer group
  released  str   the consumer that owns what nobody works on
  lease     int   milliseconds after which a consumer without a heartbeat does not count
RETURNS
  array  server time, since when it is paused, marks, cancelled so far, delayed, next eta,
         dead letters, the oldest one's time, consumers,
         then for each lane: waiting, the oldest one's time, held, the oldest one's time,
         delivered so far; -1 for what is not there or not known
]]
--- @include "now"
--- @include "made_ms"
--- @include "group_state"
--- @include "held_state"

local paused, cancelled, counts = KEYS[1], KEYS[2], KEYS[3]
local delayed, dead, consumers, lanes = KEYS[4], KEYS[5], KEYS[6], { unpack(KEYS, 7) }
local group, released, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])

local function first_ms(stream, from)
    local first = redis.call("XRANGE", stream, from, "+", "COUNT", 1)[1]
    return first and made_ms(first[1]) or -1
end

local time = now()
local reply = {
    time,
    tonumber(redis.call("GET", paused) or -1),
    redis.call("ZCARD", cancelled),
    tonumber(redis.call("HGET", counts, "cancelled") or 0),
    redis.call("ZCARD", delayed),
    tonumber(redis.call("ZRANGE", delayed, 0, 0, "WITHSCORES")[2] or -1),
    redis.call("XLEN", dead),
    first_ms(dead, "-"),
    redis.call("ZCOUNT", consumers, string.format("%.0f", time - lease), "+inf"),
}
for _, lane in ipairs(lanes) do
    local last, delivered = group_state(lane, group)
    local held, oldest_held, oldest_free = held_state(lane, group, released, made_ms)
    local oldest = oldest_free >= 0 and oldest_free or first_ms(lane, "(" .. last)
    local waiting = redis.call("XLEN", lane) - held
    for _, value in ipairs({ waiting, oldest, held, oldest_held, delivered }) do
        table.insert(reply, value)
    end
end
return reply
