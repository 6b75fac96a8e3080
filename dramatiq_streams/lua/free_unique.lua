--[[
Take a unique key from the message that has it.

KEYS
  unique           zset  unique key -> when its reservation ends
  unique_messages  hash  unique key -> token and message id of who has it
ARGV
  unique_key  str  the key
  message_id  str  the message that it is taken from
RETURNS
  int    1, or 0 when that message does not have it
]]

local unique, unique_messages = KEYS[1], KEYS[2]
local unique_key, message_id = ARGV[1], ARGV[2]

local record = redis.call("HGET", unique_messages, unique_key)
if not record or string.match(record, "^%w+:(.*)$") ~= message_id then
    return 0
end
redis.call("ZREM", unique, unique_key)
redis.call("HDEL", unique_messages, unique_key)
return 1
