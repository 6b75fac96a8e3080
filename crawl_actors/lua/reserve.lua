--[[
Reserve the next instant at which a site may be asked, or keep one reserved before.

A reservation from before the site asked for a pause does not count: it gets a new one after it.

KEYS
  site      hash  `next`: the next free instant, `closed`: no request before; server ms
ARGV
  interval  int   ms between two requests
  slot      int   the instant reserved before, 0 for none
RETURNS
  array     the reserved instant, and ms until it (0: now)
]]
--- @include "now"

local site = KEYS[1]
local interval, slot = tonumber(ARGV[1]), tonumber(ARGV[2])

local time = now()
local next_free = tonumber(redis.call("HGET", site, "next")) or 0
local closed = tonumber(redis.call("HGET", site, "closed")) or 0
if slot == 0 or slot < closed then
    slot = math.max(next_free, closed, time)
    if slot > time or interval > 0 then
        redis.call("HSET", site, "next", slot + interval)
        redis.call("PEXPIRE", site, slot - time + interval + 60000)
    end
end
return { slot, math.max(slot - time, 0) }
