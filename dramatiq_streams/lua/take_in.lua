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
  unique            zset    unique key -> when its reservation ends
  unique_messages   hash    unique key -> token and message id of who has it
ARGV
  spool       str    which spool
  row         int    the place of the message in it
  previous    int    the row sent before it in the same pipeline; 0 for the first
  delivery    str    its id, the same however often it is sent; the token of a reservation
  lane_name   str    the name of the lane
  message     bytes  the encoded message
  delay       int    milliseconds from now; -1 for no delay
  ttl         int    milliseconds for which a spool is remembered after its last row
  unique_key  str    what no two messages may have; "" for none
  unique_for  int    milliseconds that it is reserved for at most, after the delay
  message_id  str    the id of the message
RETURNS
  int    1, or 0 when it was taken in before, or -1 when its predecessor is missing,
         or 2 when another message has its unique key, and it is dropped
]]
--- @include "now"
--- @include "holder_of"
--- @include "entry_of"
--- @include "postpone"
--- @include "wake_one"
--- @include "turn_of"
--- @include "note_row"
--- @include "reserve"
--- @include "forget_over"

local wake, delayed, delayed_messages, lane, spools = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local unique, unique_messages = KEYS[6], KEYS[7]
local spool, row, previous, delivery = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local lane_name, message, delay, ttl = ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8]
local unique_key, unique_for, message_id = ARGV[9], ARGV[10], ARGV[11]

local turn = turn_of(spools, spool, row, previous)
if turn < 1 then
    return turn
end
local time = now()
local function enqueue(reservation)
    if delay < 0 then
        redis.call("XADD", lane, "*", unpack(entry_of(message, reservation)))
    elseif postpone(
        delayed, delayed_messages, delivery, lane_name, message, time + delay, reservation
    ) then
        wake_one(wake)
    end
end
local function enqueue_unique()
    local holder = holder_of(unique, unique_messages, unique_key, delivery, time)
    if holder then
        return holder == "" and 1 or 2
    end
    enqueue(delivery .. ":" .. unique_key)
    local expiry = time + math.max(delay, 0) + tonumber(unique_for)
    reserve(unique, unique_messages, unique_key, delivery, message_id, expiry)
    forget_over(unique, unique_messages, time, 10)
    return 1
end
-- Add first: a server that is out of memory refuses this, and then the row must not be noted.
local taken = 1
if unique_key == "" then
    enqueue(nil)
else
    taken = enqueue_unique()
end
note_row(spools, spool, row, ttl, time)
return taken
