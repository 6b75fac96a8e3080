--[[
Take back deliveries whose lease has expired; give up on those that were delivered too often.

O(limit) for each lane; call again with the cursors it returns while one of them is not 0-0.

KEYS
  wake             stream  wakes a consumer to take what was recovered
  dead             stream  dead letters
  unique           zset    unique key -> when its reservation ends
  unique_messages  hash    unique key -> token and message id of who has it
  lanes...         stream  highest first
ARGV
  group           str   the consumer group
  released        str   the consumer that owns what nobody works on
  lease           int   milliseconds without a sign of life
  cursors         json  where to go on in each lane; "0-0" at first
  limit           int   the most entries to recover in each lane
  max_deliveries  int   what was delivered this often is given up on
  lane_names      json  the names of the lanes, in order
  ttl             int   milliseconds that dead letters are kept
RETURNS
  array  how many are free now, how many became dead letters, then each lane's cursor
]]
--- @include "now"
--- @include "remove"
--- @include "body"
--- @include "bury"
--- @include "reservation_of"
--- @include "free"
--- @include "reclaim"
--- @include "wake_one"

local wake, dead, unique, unique_messages = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lanes = { unpack(KEYS, 5) }
local group, released, lease, cursors = ARGV[1], ARGV[2], ARGV[3], cjson.decode(ARGV[4])
local limit, max_deliveries = ARGV[5], tonumber(ARGV[6])
local lane_names, ttl = cjson.decode(ARGV[7]), tonumber(ARGV[8])

local counts = { [0] = 0, 0, 0 }
local next_cursors = {}
for position, lane in ipairs(lanes) do
    local at = {
        lane = lane, lane_name = lane_names[position], group = group,
        dead = dead, ttl = ttl, max_deliveries = max_deliveries,
        unique = unique, unique_messages = unique_messages,
        reservation_of = reservation_of, free = free,
    }
    -- JUSTID: the count of deliveries stays; it grows when somebody takes the entry.
    local claimed = redis.pcall(
        "XAUTOCLAIM", lane, group, released, lease, cursors[position], "COUNT", limit, "JUSTID"
    )
    for _, entry in ipairs(not claimed.err and claimed[2] or {}) do
        local verdict = reclaim(at, entry, now, body, bury, remove)
        counts[verdict] = counts[verdict] + 1
    end
    next_cursors[position] = claimed.err and "0-0" or claimed[1]
end
if counts[1] > 0 then
    wake_one(wake)
end
return { counts[1], counts[2], unpack(next_cursors) }
