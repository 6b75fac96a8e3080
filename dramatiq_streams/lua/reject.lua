--[[
Move a delivery to the dead letters.

KEYS
  lane             stream  where it is
  dead             stream  where it goes
  unique           zset    unique key -> when its reservation ends
  unique_messages  hash    unique key -> token and message id of who has it
ARGV
  group       str    the consumer group
  consumer    str    who holds it
  entry       str    what is given up on
  deliveries  int    its count of deliveries
  lane_name   str    the name of the lane
  message     bytes  the message as it is to be kept; "" for the body as it was stored
  reason      str    a word for machines
  error       str    a sentence for people
  ttl         int    milliseconds that dead letters are kept
  is_unique   int    1 when it may have a unique key, which is then free
RETURNS
  int    1, or 0 when it is no longer held; then nothing has changed
]]
--- @include "now"
--- @include "owned"
--- @include "insist"
--- @include "remove"
--- @include "body"
--- @include "bury"
--- @include "reservation_of"
--- @include "free"

local lane, dead, unique, unique_messages = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group, consumer, entry, deliveries = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local lane_name, message, reason, error, ttl = ARGV[5], ARGV[6], ARGV[7], ARGV[8], tonumber(ARGV[9])
local is_unique = ARGV[10]

if not owned(lane, group, consumer, entry, deliveries) then
    return 0
end
local reservation
if message == "" or is_unique == "1" then
    local stored = redis.call("XRANGE", lane, entry, entry)[1]
    reservation = stored and reservation_of(stored[2])
    message = message == "" and stored and body(stored[2]) or message
end
insist(lane, group, consumer, entry)
bury(dead, ttl, now(), {
    message = message, reason = reason, error = error,
    lane = lane_name, entry = entry, deliveries = deliveries, reservation = reservation,
})
free(unique, unique_messages, reservation, now())
remove(lane, group, { entry })
return 1
