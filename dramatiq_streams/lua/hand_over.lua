--[[
Replace a delivery by its retry in one step: the original goes as the retry comes.

KEYS
  wake              stream  wakes a consumer to wait for the earliest eta
  delayed           zset    delivery id -> eta
  delayed_messages  hash    delivery id -> lane and message
  source            stream  the lane that the original is in
  target            stream  the lane that the retry goes to
ARGV
  group       str    the consumer group
  consumer    str    who holds the original
  entry       str    the original
  deliveries  int    its count of deliveries
  delivery    str    a new id, for the delayed retry
  lane_name   str    the name of the target
  message     bytes  the encoded retry
  delay       int    milliseconds from now; -1 for no delay
  is_unique   int    1 when the original may have a unique key, which the retry then has
RETURNS
  int    1, or 0 when the original is no longer held; then nothing has changed
]]
--- @include "now"
--- @include "owned"
--- @include "insist"
--- @include "remove"
--- @include "reservation_of"
--- @include "entry_of"
--- @include "postpone"
--- @include "wake_one"

local wake, delayed, delayed_messages, source, target = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group, consumer, entry, deliveries = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local delivery, lane_name, message, delay = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])
local is_unique = ARGV[9]

if not owned(source, group, consumer, entry, deliveries) then
    return 0
end
local stored = is_unique == "1" and redis.call("XRANGE", source, entry, entry)[1]
local reservation = stored and reservation_of(stored[2])
insist(source, group, consumer, entry)
if delay < 0 then
    redis.call("XADD", target, "*", unpack(entry_of(message, reservation)))
elseif postpone(
    delayed, delayed_messages, delivery, lane_name, message, now() + delay, reservation
) then
    wake_one(wake)
end
remove(source, group, { entry })
return 1
