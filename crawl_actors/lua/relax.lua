--[[
Look again at the links of pages that turned out to be nearer than thought, until none is left.

With it the pages within a depth limit are those of a breadth-first walk, in whatever order workers
run. What is claimed belongs to the page the caller works on. Call again while the reply's first
number is above 0.

KEYS
  depths  hash  URL -> clicks from a seed
  open    hash  URL -> redirects that led to it, until it is finished
  links   hash  URL -> its links as JSON, kept when depth is limited
  claims  hash  page at work -> JSON list: the owning message, then what it claimed
  relax   hash  URL that came nearer -> index of its next link to look at again
  nearer  set   finished URLs whose stored depth is too high
ARGV
  page       string  the page the caller works on
  token      string  the id of the message at work on it
  max_depth  int     -1 for no limit
  max_pages  int     -1 for no limit
  limit      int     most links to look at in one call
RETURNS
  array      relaxations left, URL, hops, URL, hops, ...; empty when the page is not this message's
]]
--- @include "claim"
--- @include "claims_of"
--- @include "claims_reply"

local keys = {
    depths = KEYS[1], open = KEYS[2], links = KEYS[3],
    claims = KEYS[4], relax = KEYS[5], nearer = KEYS[6],
}
local page, token = ARGV[1], ARGV[2]
local limits = {max_depth = tonumber(ARGV[3]), max_pages = tonumber(ARGV[4])}
local limit = tonumber(ARGV[5])

local claims = claims_of(keys, page, token)
if not claims then
    return {}
end
while limit > 0 do
    local url = redis.call("HRANDFIELD", keys.relax)
    if not url then
        break
    end
    local record = cjson.decode(redis.call("HGET", keys.links, url))
    local depth = tonumber(redis.call("HGET", keys.depths, url)) + record.step
    local first = tonumber(redis.call("HGET", keys.relax, url)) + 1
    local last = math.min(first + limit - 1, #record.links)
    if limits.max_depth >= 0 and depth > limits.max_depth then
        last = #record.links
        first = last + 1
    end
    for index = first, last do
        if claim(keys, record.links[index], depth, record.hops, limits) then
            claims[#claims + 1] = record.links[index]
        end
    end
    if last == #record.links then
        redis.call("HDEL", keys.relax, url)
    else
        redis.call("HSET", keys.relax, url, last)
    end
    limit = limit - math.max(1, last - first + 1)
end
return claims_reply(keys, page, claims)
