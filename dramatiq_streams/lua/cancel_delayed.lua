--[[
Remove a delayed message before it is due.

KEYS
  delayed           zset  delivery id -> eta
  delayed_messages  hash  delivery id -> lane and message
  counts            hash  what was counted
  unique            zset  unique key -> when its reservation ends
  unique_messages   hash  unique key -> token and message id of who has it
ARGV
  delivery  str  which one
RETURNS
  int    1, or 0 when it is not there any more: forwarded, or cancelled before
]]
--- @include "now"
--- @include "unpacked"
--- @include "free"

local delayed, delayed_messages, counts = KEYS[1], KEYS[2], KEYS[3]
local unique, unique_messages, delivery = KEYS[4], KEYS[5], ARGV[1]

if redis.call("ZREM", delayed, delivery) == 0 then
    return 0
end
local _, _, reservation = unpacked(redis.call("HGET", delayed_messages, delivery) or "")
redis.call("HDEL", delayed_messages, delivery)
free(unique, unique_messages, reservation, now())
redis.pcall("HINCRBY", counts, "cancelled", 1)
return 1
