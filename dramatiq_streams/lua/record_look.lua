--[[
Ask the record of a key whether a message may run, and make the record when there is none.

KEYS
  record  hash  the record of the key
ARGV
  arguments  str  the hash of the message's arguments
  message    str  the message's id
  ttl        int  milliseconds that the record is kept
RETURNS
  array  "free"; "done", message id, result; "busy", milliseconds left, message id;
         "conflict", message id
]]
--- @include "now"
--- @include "verdict"

local record = KEYS[1]
local arguments, message, ttl = ARGV[1], ARGV[2], ARGV[3]

local time = now()
local answer = verdict(record, arguments, time)
if answer then
    return answer
end
if redis.call("EXISTS", record) == 0 then
    redis.call("HSET", record, "state", "pending", "arguments", arguments,
        "message_id", message, "created_ms", string.format("%.0f", time))
    redis.call("PEXPIRE", record, ttl)
end
return { "free" }
