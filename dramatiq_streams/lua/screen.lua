--[[
Drop those of a consumer's first deliveries that were cancelled before.

KEYS
  cancelled        zset    marks: lane, colon, entry
  counts           hash    what was counted
  unique           zset    unique key -> when its reservation ends
  unique_messages  hash    unique key -> token and message id of who has it
  lanes...         stream  highest first
ARGV
  group       str   the consumer group
  consumer    str   to whom they were delivered
  lane_names  json  the names of the lanes, in order
  entries     json  list of [lane, entry, deliveries]
RETURNS
  array       positions in `entries` of those that were dropped
]]
--- @include "now"
--- @include "owned"
--- @include "remove"
--- @include "drop_cancelled"
--- @include "reservation_of"
--- @include "free"
--- @include "freeing"

local cancelled, counts, unique, unique_messages = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lanes = { unpack(KEYS, 5) }
local group, consumer = ARGV[1], ARGV[2]
local lane_names, entries = cjson.decode(ARGV[3]), cjson.decode(ARGV[4])

local free_key = freeing(unique, unique_messages, now, reservation_of, free)
local dropped = {}
for position, delivery in ipairs(entries) do
    local lane, name, entry = lanes[delivery[1]], lane_names[delivery[1]], delivery[2]
    if owned(lane, group, consumer, entry, delivery[3])
        and drop_cancelled(cancelled, counts, name, lane, group, entry, remove, free_key) then
        table.insert(dropped, position)
    end
end
return dropped
