--[[
Hold a message back on the server until its delay has passed.

Repeating it with the same delivery id changes the eta and adds nothing.

KEYS
  wake              stream  wakes a consumer to wait for the earliest eta
  delayed           zset    delivery id -> eta
  delayed_messages  hash    delivery id -> lane and message
ARGV
  delivery   str    a new id
  lane_name  str    where it goes when it is due
  message    bytes  the encoded message
  delay      int    milliseconds from now
RETURNS
  int    the eta, in server milliseconds
]]
--- @include "now"
--- @include "postpone"
--- @include "wake_one"

local wake, delayed, delayed_messages = KEYS[1], KEYS[2], KEYS[3]
local delivery, lane_name, message, delay = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local eta = now() + delay
if postpone(delayed, delayed_messages, delivery, lane_name, message, eta) then
    wake_one(wake)
end
return eta
