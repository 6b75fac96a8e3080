--[[
Take in a message from a sender's spool, unless it was taken in before.

The rows of a spool come in their order. Of each spool the last row is noted, so that a row can be
sent again when nobody knows whether it arrived. A row whose predecessor was refused is not taken
in: noting it would make the other one look as if it had come.

KEYS
  wake              stream  wakes a consumer to wait for the earliest eta
  delayed           zset    delivery id -> eta
  delayed_messages  hash    delivery id -> lane and message
  lane              stream  where it goes
  spools            hash    spool -> its last row that was taken in
ARGV
  spool      str    which spool
  row        int    the place of the message in it
  previous   int    the row sent before it in the same pipeline; 0 for the first
  delivery   str    a new id, for a delayed message
  lane_name  str    the name of the lane
  message    bytes  the encoded message
  delay      int    milliseconds from now; -1 for no delay
  ttl        int    milliseconds for which a spool is remembered after its last row
RETURNS
  int    1, or 0 when it was taken in before, or -1 when its predecessor is missing
]]
--- @include "now"
--- @include "postpone"
--- @include "wake_one"
--- @include "turn_of"
--- @include "note_row"

local wake, delayed, delayed_messages, lane, spools = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local spool, row, previous, delivery = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local lane_name, message, delay, ttl = ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8]

local turn = turn_of(spools, spool, row, previous)
if turn < 1 then
    return turn
end
if delay < 0 then
    redis.call("XADD", lane, "*", "m", message)
elseif postpone(delayed, delayed_messages, delivery, lane_name, message, now() + delay) then
    wake_one(wake)
end
note_row(spools, spool, row, ttl)
return 1
