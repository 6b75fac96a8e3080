--[[
Look again at the links of pages that turned out to be nearer than thought, until none is left.

With it the pages within a depth limit are those of a breadth-first walk, in whatever order workers
run. What is claimed belongs to the page the caller works on. Call again while the reply's first
number is above 0.

KEYS
  depths  hash  URL -> clicks from a seed
  open    hash  URL -> redirects that led to it, until it is finished
  links   hash  URL -> its links, kept when depth is limited
  claims  hash  page at work -> list of the owning message and what it claimed
  relax   hash  URL that came nearer -> how many of its links were looked at again
  nearer  set   finished URLs whose stored depth is too high
ARGV
  page       url  the page the caller works on
  token      id   the message at work on it
  max_depth  int  the crawl's limit
  max_pages  int  -1 for no limit
  limit      int  most links to look at in one call
RETURNS
  array  relaxations left, URL, hops, URL, hops, ...; empty when the page is not this message's
]]
--- @include "claim"
--- @include "claims_of"
--- @include "claims_reply"
--- @include "come_nearer"

local keys = { depths = KEYS[1], open = KEYS[2], links = KEYS[3] }
keys.claims, keys.relax, keys.nearer = KEYS[4], KEYS[5], KEYS[6]
local page, token = ARGV[1], ARGV[2]
local max_depth, max_pages, limit = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local claims = claims_of(keys, page, token)
if not claims then
    return {}
end
while limit > 0 do
    local nearer = redis.call("HRANDFIELD", keys.relax)
    if not nearer then
        break
    end
    local record = cjson.decode(redis.call("HGET", keys.links, nearer))
    local depth = tonumber(redis.call("HGET", keys.depths, nearer)) + record.step
    local count = depth <= max_depth and #record.links or 0
    local first = tonumber(redis.call("HGET", keys.relax, nearer)) + 1
    local last = math.min(first + limit - 1, count)
    for index = first, last do
        local url = record.links[index]
        if claim(keys, url, depth, record.hops, max_pages) then
            claims[#claims + 1] = url
        else
            come_nearer(keys, url, depth)
        end
    end
    if last == count then
        redis.call("HDEL", keys.relax, nearer)
    else
        redis.call("HSET", keys.relax, nearer, last)
    end
    limit = limit - math.max(1, last - first + 1)
end
return claims_reply(keys, page, claims)
