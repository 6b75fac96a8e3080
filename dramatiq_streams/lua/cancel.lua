--[[
Mark an entry of a lane, so that it is dropped instead of delivered the next time.

It stays where it is until then: the server's own count of what was read stays right.
Its unique key is free at once, unless a worker holds it and may be running it.

KEYS
  lane             stream  where it is
  cancelled        zset    marks: lane, colon, entry
  unique           zset    unique key -> when its reservation ends
  unique_messages  hash    unique key -> token and message id of who has it
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
--- @include "reservation_of"
--- @include "free"
--- @include "freeing"

local lane, cancelled, unique, unique_messages = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group, released, lane_name, entry = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if #redis.call("XRANGE", lane, entry, entry) == 0 then
    return "gone"
end
redis.call("ZADD", cancelled, string.format("%.0f", now()), lane_name .. ":" .. entry)
local pending = redis.pcall("XPENDING", lane, group, entry, entry, 1)
local holder = not pending.err and pending[1] and pending[1][2] or released
if holder ~= released then
    return holder
end
local free_key = freeing(unique, unique_messages, now, reservation_of, free)
free_key(lane, entry)
return ""
