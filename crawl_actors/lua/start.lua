--[[
Begin a crawl with its seeds; doing it again changes nothing and returns the seeds still open.

KEYS
  settings  string  the crawl's settings
  depths    hash    URL -> clicks from a seed
  open      hash    URL -> redirects that led to it, until it is finished
ARGV
  values    string  JSON of the settings
  ...       string  the seeds, 1000 at most
RETURNS
  array     the seeds that have to be fetched
]]

local settings, depths, open = KEYS[1], KEYS[2], KEYS[3]
local values = ARGV[1]

local is_new = redis.call("SET", settings, values, "NX")
local seeds = {}
for index = 2, #ARGV do
    local seed = ARGV[index]
    if is_new and redis.call("HSETNX", depths, seed, 0) == 1 then
        redis.call("HSET", open, seed, 0)
    end
    if redis.call("HEXISTS", open, seed) == 1 then
        seeds[#seeds + 1] = seed
    end
end
return seeds
