--[[
Give deliveries back: others have them at once, at their old place, and none is counted.

KEYS
  wake      stream  wakes a consumer to take them
  lanes...  stream  highest first
ARGV
  group     str   the consumer group
  consumer  str   who holds them
  released  str   the consumer that owns what nobody works on
  entries   json  list of [lane, entry, deliveries, deliveries that remain counted]
RETURNS
  int       how many were still held and are free now
]]
--- @include "owned"
--- @include "give_back"
--- @include "wake_one"

local wake = KEYS[1]
local lanes = { unpack(KEYS, 2) }
local group, consumer, released, entries = ARGV[1], ARGV[2], ARGV[3], cjson.decode(ARGV[4])

local count = 0
for _, entry in ipairs(entries) do
    local lane = lanes[entry[1]]
    if owned(lane, group, consumer, entry[2], entry[3]) then
        give_back(lane, group, released, entry[2], entry[4])
        count = count + 1
    end
end
if count > 0 then
    wake_one(wake)
end
return count
