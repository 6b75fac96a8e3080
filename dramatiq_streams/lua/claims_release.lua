--[[
Give claims up, so that the next to ask has them.

KEYS
  claims  hash   digest -> owner and expiry
ARGV
  owner    bytes  6 bytes; only this owner's claims, or empty for anybody's
  digests  bytes  16 bytes each, 1000 at most
RETURNS
  int     how many were there and had not expired
]]
--- @include "now"
--- @include "digests_of"
--- @include "is_over"

local claims = KEYS[1]
local owner, digests = ARGV[1], digests_of(ARGV[2])

local time, released = now(), 0
for index, held in ipairs(redis.call("HMGET", claims, unpack(digests))) do
    if held and (owner == "" or string.sub(held, 1, 6) == owner) then
        redis.call("HDEL", claims, digests[index])
        if not is_over(held, time) then
            released = released + 1
        end
    end
end
return released
