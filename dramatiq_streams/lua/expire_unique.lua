--[[
Forget the reservations of unique keys whose time is over.

Call again while it returns `limit`.

KEYS
  unique           zset  unique key -> when its reservation ends
  unique_messages  hash  unique key -> token and message id of who has it
ARGV
  limit  int  the most to forget
RETURNS
  int    how many
]]
--- @include "now"
--- @include "forget_over"

local unique, unique_messages, limit = KEYS[1], KEYS[2], ARGV[1]

return forget_over(unique, unique_messages, now(), limit)
