--[[
Remove a delayed message before it is due.

KEYS
  delayed           zset  delivery id -> eta
  delayed_messages  hash  delivery id -> lane and message
  counts            hash  what was counted
ARGV
  delivery  str  which one
RETURNS
  int    1, or 0 when it is not there any more: forwarded, or cancelled before
]]

local delayed, delayed_messages, counts = KEYS[1], KEYS[2], KEYS[3]
local delivery = ARGV[1]

if redis.call("ZREM", delayed, delivery) == 0 then
    return 0
end
redis.call("HDEL", delayed_messages, delivery)
redis.pcall("HINCRBY", counts, "cancelled", 1)
return 1
