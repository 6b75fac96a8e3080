--[[
Free the unique key of a delivery that starts now, if it is to be unique only until then.

KEYS
  lane             stream  where it is
  unique           zset    unique key -> when its reservation ends
  unique_messages  hash    unique key -> token and message id of who has it
ARGV
  entry  id   the entry
RETURNS
  int    1, or 0 when it has none that is still its own
]]
--- @include "now"
--- @include "reservation_of"
--- @include "free"
--- @include "freeing"

local lane, unique, unique_messages, entry = KEYS[1], KEYS[2], KEYS[3], ARGV[1]

local free_key = freeing(unique, unique_messages, now, reservation_of, free)
return free_key(lane, entry)
