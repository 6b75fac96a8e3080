--[[
Move a delivery to the dead letters.

KEYS
  lane             stream  where it is
  dead             stream  where it goes
  dead_expiries    zset    dead letter -> when it is dropped
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
  ttl         int    milliseconds that it is kept
  most        int    how many dead letters are kept, the newest
  is_unique   int    1 when it may have a unique key, which is then free
RETURNS
  int    0 when it is no longer held, and then nothing has changed; else 1 and the number of
         dead letters that were dropped because there were too many
]]
--- @include "now"
--- @include "owned"
--- @include "insist"
--- @include "remove"
--- @include "body"
--- @include "add_letter"
--- @include "drop_letters"
--- @include "oldest_letters"
--- @include "bury"
--- @include "reservation_of"
--- @include "free"

local lane, dead, dead_expiries = KEYS[1], KEYS[2], KEYS[3]
local unique, unique_messages = KEYS[4], KEYS[5]
local group, consumer, entry, deliveries = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local lane_name, message, reason, error, ttl = ARGV[5], ARGV[6], ARGV[7], ARGV[8], tonumber(ARGV[9])
local most, is_unique = tonumber(ARGV[10]), ARGV[11]

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
local at = {
    dead = dead, expiries = dead_expiries, most = most,
    add_letter = add_letter, drop_letters = drop_letters, oldest_letters = oldest_letters,
}
local dropped = bury(at, now(), {
    message = message, ttl = ttl, reason = reason, error = error,
    lane = lane_name, entry = entry, deliveries = deliveries, reservation = reservation,
})
free(unique, unique_messages, reservation, now())
remove(lane, group, { entry })
return 1 + dropped
