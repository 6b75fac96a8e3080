--[[
Take back deliveries whose lease has expired, note that a consumer is alive, and return those that
may not be.

What was delivered too often is given up on. O(limit) for each lane; call again with the cursors it
returns while one of them is not 0-0.

KEYS
  consumers        zset    consumer -> last heartbeat
  connections      hash    consumer -> ids of its connections, and how it does
  host             hash    consumer -> identity of its process, of this host only
  wake             stream  wakes a consumer to take what was recovered, or what is due
  delayed          zset    delivery id -> eta
  dead             stream  dead letters
  dead_expiries    zset    dead letter -> when it is dropped
  unique           zset    unique key -> when its reservation ends
  unique_messages  hash    unique key -> token and message id of who has it
  lanes...         stream  highest first
ARGV
  consumer        str   who is alive
  ids             str   the ids of its connections, and how it does, with spaces between
  identity        str   its process; "" where others cannot check it
  host_ttl        int   milliseconds that `host` is kept without a heartbeat
  late            int   milliseconds after which a heartbeat is late
  late_limit      int   the most late consumers to return, the latest first, and as many
                        of the future
  group           str   the consumer group
  released        str   the consumer that owns what nobody works on
  lease           int   milliseconds without a sign of life
  latest          int   what the server's clock may show at the latest; if it shows more it was set
                        forward, every lease seems to have expired, and nothing is recovered
  cursors         json  where to go on in each lane; "0-0" at first
  limit           int   the most entries to recover in each lane
  max_deliveries  int   what was delivered this often is given up on
  lane_names      json  the names of the lanes, in order
  ttl             int   milliseconds that dead letters are kept
  ttls            json  the same for actors that have their own, by their names
  most            int   how many dead letters are kept, the newest
RETURNS
  array  how many are free now, how many became dead letters, each lane's cursor,
         then what `beat` returns
]]
--- @include "now"
--- @include "heartbeat"
--- @include "overdue"
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
--- @include "idle_entries"
--- @include "recover_lane"
--- @include "wake_one"
--- @include "extend_reply"

local consumers, connections, host, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local delayed, dead, dead_expiries = KEYS[5], KEYS[6], KEYS[7]
local unique, unique_messages, lanes = KEYS[8], KEYS[9], { unpack(KEYS, 10) }
local consumer, ids, identity, host_ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local late, late_limit = tonumber(ARGV[5]), ARGV[6]
local group, released, lease, latest = ARGV[7], ARGV[8], ARGV[9], tonumber(ARGV[10])
local cursors, limit, max_deliveries = cjson.decode(ARGV[11]), ARGV[12], tonumber(ARGV[13])
local lane_names, ttl = cjson.decode(ARGV[14]), tonumber(ARGV[15])
local ttls, most = cjson.decode(ARGV[16]), tonumber(ARGV[17])

-- First: see there.
local me = { consumer = consumer, ids = ids, identity = identity, host_ttl = host_ttl }
local time, neighbours = heartbeat(consumers, connections, host, me, now)

local counts = { [0] = 0, 0, 0 }
local function judge(at, entry)
    return reclaim(at, entry, now, body, bury, remove)
end
for position, lane in ipairs(time <= latest and lanes or {}) do
    local at = {
        lane = lane, lane_name = lane_names[position], group = group, released = released,
        lease = lease, limit = limit, max_deliveries = max_deliveries,
        dead = dead, expiries = dead_expiries, ttl = ttl, ttls = ttls, most = most,
        lifetime = lifetime, add_letter = add_letter,
        drop_letters = drop_letters, oldest_letters = oldest_letters,
        unique = unique, unique_messages = unique_messages,
        reservation_of = reservation_of, free = free,
    }
    cursors[position] = recover_lane(at, cursors[position], counts, judge, idle_entries)
end
-- Of the earliest eta one consumer knows, who may have ended since.
local eta = redis.call("ZRANGE", delayed, 0, 0, "WITHSCORES")[2]
if counts[1] > 0 or eta and tonumber(eta) <= time then
    wake_one(wake)
end

local reply = { counts[1], counts[2], unpack(cursors) }
extend_reply(reply, { time, #neighbours / 2 })
extend_reply(reply, neighbours)
return extend_reply(reply, overdue(consumers, connections, time, late, late_limit))
