--[[
Send a dead letter round again, in one step; repeating it sends nothing twice.

A message that had a unique key gets it again. While another one has it, the letter stays.

KEYS
  dead             stream  dead letters
  dead_expiries    zset    dead letter -> when it is dropped
  lane             stream  where the message goes
  unique           zset    unique key -> when its reservation ends
  unique_messages  hash    unique key -> token and message id of who has it
ARGV
  letter      str    which dead letter
  message     bytes  the message as it is to be sent; "" for the body as it was kept
  token       str    for its reservation, new, in letters and digits
  message_id  str    the id of the message
  unique_for  int    milliseconds that its unique key is reserved for at most
RETURNS
  array  1, or 0 when there is no such dead letter any more, or -1 when it stays;
         the id of the message that has its unique key then, else ""
]]
--- @include "now"
--- @include "body"
--- @include "reservation_of"
--- @include "holder_of"
--- @include "entry_of"
--- @include "reserve"
--- @include "forget_over"

local dead, dead_expiries, lane = KEYS[1], KEYS[2], KEYS[3]
local unique, unique_messages = KEYS[4], KEYS[5]
local letter, message, token, message_id, unique_for = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local stored = redis.call("XRANGE", dead, letter, letter)[1]
if not stored then
    return { 0, "" }
end
message = message == "" and body(stored[2]) or message
local reserved = reservation_of(stored[2])
local unique_key = reserved and string.match(reserved, "^%w+:(.*)$")
local time = now()
local holder = unique_key and holder_of(unique, unique_messages, unique_key, token, time)
if holder then
    return { -1, holder }
end
-- Add first: a server that is out of memory refuses this, and then the letter must stay.
local reservation = unique_key and token .. ":" .. unique_key
redis.call("XADD", lane, "*", unpack(entry_of(message, reservation)))
redis.call("XDEL", dead, letter)
redis.call("ZREM", dead_expiries, letter)
if unique_key then
    local expiry = time + tonumber(unique_for)
    reserve(unique, unique_messages, unique_key, token, message_id, expiry)
    forget_over(unique, unique_messages, time, 10)
end
return { 1, "" }
