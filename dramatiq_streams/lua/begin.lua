--[[
Count a last delivery, now that it starts; until then it was delivered without being counted.

KEYS
  lane  stream  where it is
ARGV
  group       str  the consumer group
  consumer    str  who holds it
  entry       id   the entry
  deliveries  int  how often it was delivered and counted
RETURNS
  int         1, or 0 when it is no longer held and must not start
]]
--- @include "owned"

local lane = KEYS[1]
local group, consumer, entry, deliveries = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

if not owned(lane, group, consumer, entry, deliveries) then
    return 0
end
redis.call("XCLAIM", lane, group, consumer, 0, entry, "RETRYCOUNT", deliveries + 1, "JUSTID")
return 1
