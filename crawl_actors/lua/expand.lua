--[[
Claim the links of a page that nobody has claimed yet.

The first message that expands a page owns it; to others it says nothing. The owner gets all it has
claimed and is still open, so a call repeated after a lost reply or a crash returns the same.
O(links + claims).

KEYS
  depths  hash  URL -> clicks from a seed
  open    hash  URL -> redirects that led to it, until it is finished
  links   hash  URL -> its links, kept when depth is limited
  claims  hash  page at work -> list of the owning message and what it claimed
  relax   hash  URL that came nearer -> how many of its links were looked at again
  nearer  set   finished URLs whose stored depth is too high
ARGV
  page       url   the page
  token      id    the message at work on it
  step       int   clicks from the page to its links: 1, or 0 for a redirect
  hops       int   redirects in a row that led to the links
  max_depth  int   -1 for no limit
  max_pages  int   -1 for no limit
  record     json  all links of the page, with step and hops; empty to keep none
  urls...    url   the links, 1000 at most
RETURNS
  array  relaxations left, URL, hops, URL, hops, ...; empty when the page is not this message's
]]
--- @include "claim"
--- @include "claims_of"
--- @include "claims_reply"
--- @include "come_nearer"

local keys = { depths = KEYS[1], open = KEYS[2], links = KEYS[3] }
keys.claims, keys.relax, keys.nearer = KEYS[4], KEYS[5], KEYS[6]
local page, token, step, hops = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local max_depth, max_pages, record = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local urls = { unpack(ARGV, 8) }

local claims = claims_of(keys, page, token)
if not claims then
    return {}
end
if record ~= "" then
    redis.call("HSET", keys.links, page, record)
end
local depth = tonumber(redis.call("HGET", keys.depths, page)) + step
if max_depth >= 0 and depth > max_depth then
    urls = {}
end
for _, url in ipairs(urls) do
    if claim(keys, url, depth, hops, max_pages) then
        claims[#claims + 1] = url
    elseif max_depth >= 0 then
        come_nearer(keys, url, depth)
    end
end
return claims_reply(keys, page, claims)
