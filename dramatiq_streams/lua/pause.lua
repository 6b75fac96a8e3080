--[[
Pause a queue: from now on nothing of it is delivered, to blocked consumers neither.

KEYS
  paused  string  since when
  wake    stream  wakes a blocked consumer
ARGV
  group  str  the consumer group
RETURNS
  int    1, or 0 when it was paused before
]]
--- @include "now"

local paused, wake, group = KEYS[1], KEYS[2], ARGV[1]

local time = string.format("%.0f", now())
local was_running = redis.call("SETNX", paused, time)
-- Every blocking read names this stream, and fails at once while its group is missing.
redis.pcall("XGROUP", "DESTROY", wake, group)
return was_running
