--[[
Remove acknowledged entries for good, those that the consumer still holds.

KEYS
  wake      stream  entries of lane 0
  lanes...  stream  highest first
ARGV
  group     str   the consumer group
  consumer  str   who acknowledges
  acks      json  list of [lane, entry, deliveries]; lane 0 is `wake`
RETURNS
  array  positions in `acks` of those that were refused
]]
--- @include "owned"
--- @include "remove"
--- @include "settle"

local lanes = { unpack(KEYS, 2) }
lanes[0] = KEYS[1]
local group, consumer, acks = ARGV[1], ARGV[2], cjson.decode(ARGV[3])

return settle(lanes, group, consumer, acks, owned, remove)
