--[[
Send a dead letter round again, in one step; repeating it sends nothing twice.

KEYS
  dead  stream  dead letters
  lane  stream  where the message goes
ARGV
  letter   str    which dead letter
  message  bytes  the message as it is to be sent; "" for the body as it was kept
RETURNS
  int    1, or 0 when there is no such dead letter any more
]]
--- @include "body"

local dead, lane = KEYS[1], KEYS[2]
local letter, message = ARGV[1], ARGV[2]

local stored = redis.call("XRANGE", dead, letter, letter)[1]
if not stored then
    return 0
end
-- Add first: a server that is out of memory refuses this, and then the letter must stay.
redis.call("XADD", lane, "*", "m", message == "" and body(stored[2]) or message)
redis.call("XDEL", dead, letter)
return 1
