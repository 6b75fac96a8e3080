--[[
Give back what the server delivered to a consumer that never heard of it: its reply was lost.

KEYS
  wake      stream  wakes a consumer to take them
  lanes...  stream  highest first
ARGV
  group     str   the consumer group
  consumer  str   whose deliveries are looked through
  released  str   the consumer that owns what nobody works on
  held      json  list of [lane, entry] that the consumer knows of
  limit     int   the most deliveries to look through in each lane
RETURNS
  int       how many are free now
]]
--- @include "give_back"
--- @include "wake_one"

local wake = KEYS[1]
local lanes = { unpack(KEYS, 2) }
local group, consumer, released = ARGV[1], ARGV[2], ARGV[3]
local held, limit = cjson.decode(ARGV[4]), tonumber(ARGV[5])

local known = {}
for _, entry in ipairs(held) do
    known[entry[1] .. " " .. entry[2]] = true
end
local count = 0
for position, lane in ipairs(lanes) do
    for _, pending in ipairs(redis.call("XPENDING", lane, group, "-", "+", limit, consumer)) do
        if not known[position .. " " .. pending[1]] then
            give_back(lane, group, released, pending[1], pending[4] - 1)
            count = count + 1
        end
    end
end
if count > 0 then
    wake_one(wake)
end
return count
