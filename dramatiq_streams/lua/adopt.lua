--[[
Take in a message that was in transit from another broker, unless it was taken in before.

Of each source the last row is noted, as of a spool: what is sent again changes nothing. Sources and
spools are noted side by side, as both are known by random names.

KEYS
  wake              stream  wakes a consumer to wait for the earliest eta
  delayed           zset    delivery id -> eta
  delayed_messages  hash    delivery id -> lane and message
  lane              stream  where it goes
  dead              stream  where it goes if there is a reason
  spools            hash    source -> its last row that was taken in
ARGV
  source     str    the run of the migration that took it from the other broker
  row        int    the place of the message in that run
  previous   int    the row sent before it in the same pipeline; 0 for the first
  lane_name  str    the name of the lane
  message    bytes  the encoded message
  eta        int    when it is due, in milliseconds since 1970; -1 when it is not delayed
  reason     str    why it is dead, for machines; "" when it is not
  error      str    a sentence for people
  ttl        int    milliseconds for which a source is remembered after its last row
RETURNS
  int    1, or 0 when it was taken in before, or -1 when its predecessor is missing
]]
--- @include "now"
--- @include "add_letter"
--- @include "postpone"
--- @include "wake_one"
--- @include "turn_of"
--- @include "note_row"

local wake, delayed, delayed_messages, lane = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local dead, spools = KEYS[5], KEYS[6]
local source, row, previous, lane_name = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local message, eta, reason, error, ttl = ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9]

local turn = turn_of(spools, source, row, previous)
if turn < 1 then
    return turn
end
if reason ~= "" then
    -- How long it is kept is the broker's affair, which is not known here: its workers note it.
    add_letter(dead, {
        message = message, reason = reason, error = error,
        lane = lane_name, entry = "", deliveries = 0,
    })
elseif eta < 0 then
    redis.call("XADD", lane, "*", "m", message)
elseif postpone(delayed, delayed_messages, source .. ":" .. row, lane_name, message, eta) then
    wake_one(wake)
end
note_row(spools, source, row, ttl, now())
return 1
