--[[
Let a request to a site start, or reserve the next instant at which it may.

The caller may start, `wait` ms from now, when `starts` is 1: that start is noted here. Otherwise it
comes back then and shows its slot. A slot counts when it is used in time; a request that comes
later, or from before the site asked for a pause, gets a new one behind all others. And no request
starts sooner than `interval` after the last start, whatever its slot.

KEYS
  site       hash  `next`: the next free instant, `closed`: no request before, `last`: the latest
                   start; server ms
ARGV
  interval   int   ms between two requests
  slot       int   the instant reserved before, 0 for none
  tolerance  int   ms after its slot at which a request may still start
  patience   int   ms the caller may wait without coming back
RETURNS
  array  the reserved instant, ms until the request may start (0: now), whether it starts (1, 0)
]]
--- @include "now"
--- @include "instants"
--- @include "keep_past"

local site = KEYS[1]
local interval, slot = tonumber(ARGV[1]), tonumber(ARGV[2])
local tolerance, patience = tonumber(ARGV[3]), tonumber(ARGV[4])

local time = now()
local next_free, closed, last = instants(site)
local function start_after_last()
    return last > 0 and interval > 0 and last + interval or 0
end
local soonest = math.max(time, start_after_last())
local function is_worthless()
    return slot == 0 or slot < closed or soonest > slot + tolerance
end
local is_new = is_worthless()
if is_new then
    slot = math.max(next_free, closed, soonest)
    next_free = slot + interval
end
local start = math.max(slot, soonest)
local starts = start - time <= patience
if interval > 0 or slot > time then
    if is_new then
        redis.call("HSET", site, "next", next_free)
    end
    if starts then
        last = math.max(last, start)
        redis.call("HSET", site, "last", last)
    end
    keep_past(site, math.max(next_free, closed, last + interval), time)
end
return { slot, start - time, starts and 1 or 0 }
