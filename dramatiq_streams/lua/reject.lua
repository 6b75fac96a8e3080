--[[
Move a delivery to the dead letters.

KEYS
  lane  stream  where it is
  dead  stream  where it goes
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
RETURNS
  int    1, or 0 when it is no longer held; then nothing has changed
]]
--- @include "now"
--- @include "owned"
--- @include "insist"
--- @include "remove"
--- @include "body"
--- @include "bury"

local lane, dead = KEYS[1], KEYS[2]
local group, consumer, entry, deliveries = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local lane_name, message, reason, error, ttl = ARGV[5], ARGV[6], ARGV[7], ARGV[8], tonumber(ARGV[9])

if not owned(lane, group, consumer, entry, deliveries) then
    return 0
end
if message == "" then
    local stored = redis.call("XRANGE", lane, entry, entry)[1]
    message = stored and body(stored[2]) or ""
end
insist(lane, group, consumer, entry)
bury(dead, ttl, now(), {
    message = message, reason = reason, error = error,
    lane = lane_name, entry = entry, deliveries = deliveries,
})
remove(lane, group, { entry })
return 1
