--[[
Free what a dead consumer holds; give up on what was delivered too often.

The caller has proof that the process is gone, or names the heartbeat that it was judged by: another
one means that it lives. O(limit) for each lane; call again while it returns `limit` or more.

KEYS
  consumers        zset    consumer -> last heartbeat
  wake             stream  wakes a consumer to take what was freed
  dead             stream  dead letters
  dead_expiries    zset    dead letter -> when it is dropped
  unique           zset    unique key -> when its reservation ends
  unique_messages  hash    unique key -> token and message id of who has it
  lanes...         stream  highest first
ARGV
  group           str   the consumer group
  consumer        str   who is dead
  released        str   the consumer that owns what nobody works on
  heartbeat       str   its heartbeat, if it has sent no other; "" when it is provably gone
  limit           int   the most entries to free in each lane
  max_deliveries  int   what was delivered this often is given up on
  lane_names      json  the names of the lanes, in order
  ttl             int   milliseconds that dead letters are kept
  ttls            json  the same for actors that have their own, by their names
  most            int   how many dead letters are kept, the newest
RETURNS
  array  how many are free now, how many became dead letters, and how many were looked at
]]
--- @include "now"
--- @include "remove"
--- @include "body"
--- @include "add_letter"
--- @include "drop_letters"
--- @include "oldest_letters"
--- @include "lifetime"
--- @include "bury"
--- @include "reservation_of"
--- @include "free"
--- @include "reclaim"
--- @include "wake_one"

local consumers, wake, dead, dead_expiries = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local unique, unique_messages, lanes = KEYS[5], KEYS[6], { unpack(KEYS, 7) }
local group, consumer, released, heartbeat = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local limit, max_deliveries = ARGV[5], tonumber(ARGV[6])
local lane_names, ttl = cjson.decode(ARGV[7]), tonumber(ARGV[8])
local ttls, most = cjson.decode(ARGV[9]), tonumber(ARGV[10])

local last = redis.call("ZSCORE", consumers, consumer)
if heartbeat ~= "" and last and tonumber(last) ~= tonumber(heartbeat) then
    return { 0, 0, 0 }
end
local counts, looked_at = { [0] = 0, 0, 0 }, 0
for position, lane in ipairs(lanes) do
    local at = {
        lane = lane, lane_name = lane_names[position], group = group,
        max_deliveries = max_deliveries,
        dead = dead, expiries = dead_expiries, ttl = ttl, ttls = ttls, most = most,
        lifetime = lifetime, add_letter = add_letter,
        drop_letters = drop_letters, oldest_letters = oldest_letters,
        unique = unique, unique_messages = unique_messages,
        reservation_of = reservation_of, free = free,
    }
    local held = redis.pcall("XPENDING", lane, group, "-", "+", limit, consumer)
    for _, pending in ipairs(not held.err and held or {}) do
        -- JUSTID: the count of deliveries stays; it grows when somebody takes the entry.
        redis.call("XCLAIM", lane, group, released, 0, pending[1], "JUSTID")
        local verdict = reclaim(at, pending[1], now, body, bury, remove)
        counts[verdict] = counts[verdict] + 1
        looked_at = looked_at + 1
    end
end
if counts[1] > 0 then
    wake_one(wake)
end
return { counts[1], counts[2], looked_at }
