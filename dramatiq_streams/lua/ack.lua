--[[
Remove acknowledged entries for good, those that the consumer still holds.

Nothing is read here: who acknowledges a call to read passes it on.

KEYS
  wake             stream  entries of lane 0; wakes the next consumer
  unique           zset    unique key -> when its reservation ends
  unique_messages  hash    unique key -> token and message id of who has it
  lanes...         stream  highest first
ARGV
  group     str   the consumer group
  consumer  str   who acknowledges
  acks      json  list of [lane, entry, deliveries]; lane 0 is `wake`;
                  a 1 behind these when the entry may have a unique key
RETURNS
  array  positions in `acks` of those that were refused
]]
--- @include "now"
--- @include "owned"
--- @include "remove"
--- @include "reservation_of"
--- @include "free"
--- @include "freeing"
--- @include "held_by"
--- @include "settle"
--- @include "wake_one"

local wake, unique, unique_messages, lanes = KEYS[1], KEYS[2], KEYS[3], { unpack(KEYS, 4) }
local group, consumer, acks = ARGV[1], ARGV[2], cjson.decode(ARGV[3])

lanes[0] = wake
local free_key = freeing(unique, unique_messages, now, reservation_of, free)
local refused, was_called = settle(lanes, group, consumer, acks, held_by, owned, remove, free_key)
if was_called then
    wake_one(wake)
end
return refused
