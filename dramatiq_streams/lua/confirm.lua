--[[
Drop messages from transit that have arrived; when none is left, leave no trace of it.

KEYS
  transit  stream  what is on its way
ARGV
  entries...  str  its entries
RETURNS
  int    how many were still there
]]

local transit = KEYS[1]
local entries = { unpack(ARGV) }

local confirmed = redis.call("XDEL", transit, unpack(entries))
if redis.call("XLEN", transit) == 0 then
    redis.call("DEL", transit)
end
return confirmed
