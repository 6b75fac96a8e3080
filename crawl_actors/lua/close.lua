--[[
Let nobody ask a site for a while, because it said so.

KEYS
  site   hash  `next`: the next free instant, `closed`: no request before; server ms
ARGV
  pause  int   ms
RETURNS
  int    the instant at which the site is open again
]]
--- @include "now"

local site = KEYS[1]
local pause = tonumber(ARGV[1])

local time = now()
local closed = math.max(tonumber(redis.call("HGET", site, "closed")) or 0, time + pause)
redis.call("HSET", site, "closed", closed)
local next_free = tonumber(redis.call("HGET", site, "next")) or 0
redis.call("PEXPIRE", site, math.max(closed, next_free) - time + 60000)
return closed
