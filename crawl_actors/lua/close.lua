--[[
Let nobody ask a site for a while, because it said so.

KEYS
  site   hash  `next`: the next free instant, `closed`: no request before, `last`: the latest
               start; server ms
ARGV
  pause  int   ms
RETURNS
  int    the instant at which the site is open again
]]
--- @include "now"
--- @include "instants"
--- @include "keep_past"

local site = KEYS[1]
local pause = tonumber(ARGV[1])

local time = now()
local next_free, closed, last = instants(site)
closed = math.max(closed, time + pause)
redis.call("HSET", site, "closed", closed)
keep_past(site, math.max(closed, next_free, last), time)
return closed
