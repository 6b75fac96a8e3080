--[[
Give a consumer a full lease again for everything that it still holds.

KEYS
  lanes...  stream  highest first
ARGV
  group     str   the consumer group
  consumer  str   who is alive
  held      json  list of [lane, entry, deliveries] that it believes to hold
RETURNS
  array     positions in `held` of those that were lost
]]
--- @include "owned"

local lanes = KEYS
local group, consumer, held = ARGV[1], ARGV[2], cjson.decode(ARGV[3])

local lost = {}
for position, entry in ipairs(held) do
    local lane = lanes[entry[1]]
    if owned(lane, group, consumer, entry[2], entry[3]) then
        -- JUSTID: resets the idle time and leaves the count of deliveries.
        redis.call("XCLAIM", lane, group, consumer, 0, entry[2], "JUSTID")
    else
        table.insert(lost, position)
    end
end
return lost
