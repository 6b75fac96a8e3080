--[[
Note that a request to a site starts now, whoever's turn it is: the next one comes after it.

KEYS
  site      hash  `next`: the next free instant, `closed`: no request before, `last`: the latest
                  start; server ms
ARGV
  interval  int   ms between two requests
RETURNS
  int       the instant
]]
--- @include "now"
--- @include "instants"
--- @include "keep_past"

local site = KEYS[1]
local interval = tonumber(ARGV[1])

local time = now()
local next_free, closed, last = instants(site)
last = math.max(last, time)
next_free = math.max(next_free, last + interval)
redis.call("HSET", site, "next", next_free, "last", last)
keep_past(site, math.max(next_free, closed), time)
return time
