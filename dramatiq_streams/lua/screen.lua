--[[
Drop those of a consumer's first deliveries that were cancelled before.

KEYS
  cancelled  zset    marks: lane, colon, entry
  counts     hash    what was counted
  lanes...   stream  highest first
ARGV
  group       str   the consumer group
  consumer    str   to whom they were delivered
  lane_names  json  the names of the lanes, in order
  entries     json  list of [lane, entry, deliveries]
RETURNS
  array       positions in `entries` of those that were dropped
]]
--- @include "owned"
--- @include "remove"
--- @include "drop_cancelled"

local cancelled, counts, lanes = KEYS[1], KEYS[2], { unpack(KEYS, 3) }
local group, consumer = ARGV[1], ARGV[2]
local lane_names, entries = cjson.decode(ARGV[3]), cjson.decode(ARGV[4])

local dropped = {}
for position, delivery in ipairs(entries) do
    local lane, name, entry = lanes[delivery[1]], lane_names[delivery[1]], delivery[2]
    if owned(lane, group, consumer, entry, delivery[3])
        and drop_cancelled(cancelled, counts, name, lane, group, entry, remove) then
        table.insert(dropped, position)
    end
end
return dropped
