--[[
Free open pages whose messages have vanished, so that new messages can work on them.

Call only when no message of the crawl is left.

KEYS
  open    hash  URL -> redirects that led to it, until it is finished
  claims  hash  page at work -> list of the owning message and what it claimed
  resent  hash  URL -> how often it was sent again
ARGV
  urls...  url  1000 at most
RETURNS
  array  for each URL how often it was sent again, this time included; 0 when it is finished
]]

local open, claims, resent = KEYS[1], KEYS[2], KEYS[3]
local urls = { unpack(ARGV) }

local times = {}
for index, url in ipairs(urls) do
    times[index] = 0
    if redis.call("HEXISTS", open, url) == 1 then
        redis.call("HDEL", claims, url)
        times[index] = redis.call("HINCRBY", resent, url, 1)
    end
end
return times
