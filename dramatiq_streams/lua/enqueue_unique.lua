--[[
Enqueue a message, or delay it, unless another one has its unique key.

Repeating it with the same delivery id changes nothing, also when that delivery has ended since.

KEYS
  wake              stream  wakes a consumer to wait for the earliest eta
  delayed           zset    delivery id -> eta
  delayed_messages  hash    delivery id -> lane and message
  lane              stream  where it goes
  unique            zset    unique key -> when its reservation ends
  unique_messages   hash    unique key -> token and message id of who has it
ARGV
  unique_key  str    what no two messages may have
  ttl         int    milliseconds that it is reserved for at most, after the delay
  message_id  str    the id of the message
  again       int    1 when the message may follow itself: it is enqueued by its own delivery
  delivery    str    a new id, in letters and digits; the token of its reservation
  lane_name   str    the name of the lane
  message     bytes  the encoded message
  delay       int    milliseconds from now; -1 for no delay
RETURNS
  str    the id of the message that has the key, or "" when this delivery is or was enqueued
]]
--- @include "now"
--- @include "holder_of"
--- @include "entry_of"
--- @include "postpone"
--- @include "wake_one"
--- @include "reserve"
--- @include "forget_over"

local wake, delayed, delayed_messages, lane = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local unique, unique_messages = KEYS[5], KEYS[6]
local unique_key, ttl, message_id, again = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local delivery, lane_name, message, delay = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])

local time = now()
local holder = holder_of(unique, unique_messages, unique_key, delivery, time)
if holder and not (again == "1" and holder == message_id) then
    return holder
end
local reservation = delivery .. ":" .. unique_key
if delay < 0 then
    redis.call("XADD", lane, "*", unpack(entry_of(message, reservation)))
elseif postpone(
    delayed, delayed_messages, delivery, lane_name, message, time + delay, reservation
) then
    wake_one(wake)
end
local expiry = time + math.max(delay, 0) + ttl
reserve(unique, unique_messages, unique_key, delivery, message_id, expiry)
forget_over(unique, unique_messages, time, 10)
return ""
