--[[
Begin a crawl with its seeds; doing it again changes nothing and returns the seeds still open.

KEYS
  settings  string  the crawl's settings
  depths    hash    URL -> clicks from a seed
  open      hash    URL -> redirects that led to it, until it is finished
ARGV
  values    json  the settings
  seeds...  url   1000 at most
RETURNS
  array  the seeds that have to be fetched
]]

local settings, depths, open = KEYS[1], KEYS[2], KEYS[3]
local values, seeds = ARGV[1], { unpack(ARGV, 2) }

local is_new = redis.call("SET", settings, values, "NX")
local left = {}
for _, seed in ipairs(seeds) do
    if is_new and redis.call("HSETNX", depths, seed, 0) == 1 then
        redis.call("HSET", open, seed, 0)
    end
    if redis.call("HEXISTS", open, seed) == 1 then
        left[#left + 1] = seed
    end
end
return left
