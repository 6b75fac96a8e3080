--[[
Let a paused queue go on.

KEYS
  paused  string  since when
  wake    stream  wakes a blocked consumer
ARGV
  group  str  the consumer group
RETURNS
  int    1, or 0 when it was not paused
]]

local paused, wake, group = KEYS[1], KEYS[2], ARGV[1]

local was_paused = redis.call("DEL", paused)
if was_paused == 1 then
    -- A refusal (no memory) costs nothing: a consumer that finds no group creates it.
    redis.pcall("XGROUP", "CREATE", wake, group, "0", "MKSTREAM")
end
return was_paused
