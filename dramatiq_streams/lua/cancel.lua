--[[
Mark an entry of a lane, so that it is dropped instead of delivered the next time.

It stays where it is until then: the server's own count of what was read stays right.

KEYS
  lane       stream  where it is
  cancelled  zset    marks: lane, colon, entry
ARGV
  group      str  the consumer group
  released   str  the consumer that owns what nobody works on
  lane_name  str  the name of the lane
  entry      str  what is cancelled
RETURNS
  str    "" when it is waiting, else the consumer that holds it and may be running it;
         "gone" when there is no such entry, and then nothing has changed
]]
--- @include "now"

local lane, cancelled = KEYS[1], KEYS[2]
local group, released, lane_name, entry = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if #redis.call("XRANGE", lane, entry, entry) == 0 then
    return "gone"
end
redis.call("ZADD", cancelled, string.format("%.0f", now()), lane_name .. ":" .. entry)
local pending = redis.pcall("XPENDING", lane, group, entry, entry, 1)
local holder = not pending.err and pending[1] and pending[1][2] or released
return holder == released and "" or holder
