--[[
Claim the links of a page that nobody has claimed yet.

The first message that expands a page owns it; to others it says nothing. The owner gets all it has
claimed and is still open, so a call repeated after a lost reply or a crash returns the same.
O(links + claims).

KEYS
  depths  hash  URL -> clicks from a seed
  open    hash  URL -> redirects that led to it, until it is finished
  links   hash  URL -> its links as JSON, kept when depth is limited
  claims  hash  page at work -> JSON list: the owning message, then what it claimed
  relax   hash  URL that came nearer -> index of its next link to look at again
  nearer  set   finished URLs whose stored depth is too high
ARGV
  page       string  the page
  token      string  the id of the message at work on it
  step       int     clicks from the page to its links: 1, or 0 for a redirect
  hops       int     redirects in a row that led to the links
  max_depth  int     -1 for no limit
  max_pages  int     -1 for no limit
  record     string  all links of the page, step and hops as JSON, or empty to keep none
  ...        string  the links, 1000 at most
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
local step, hops = tonumber(ARGV[3]), tonumber(ARGV[4])
local limits = {max_depth = tonumber(ARGV[5]), max_pages = tonumber(ARGV[6])}
local record, first_link = ARGV[7], 8

local claims = claims_of(keys, page, token)
if not claims then
    return {}
end
if record ~= "" then
    redis.call("HSET", keys.links, page, record)
end
local depth = tonumber(redis.call("HGET", keys.depths, page)) + step
if limits.max_depth < 0 or depth <= limits.max_depth then
    for index = first_link, #ARGV do
        if claim(keys, ARGV[index], depth, hops, limits) then
            claims[#claims + 1] = ARGV[index]
        end
    end
end
return claims_reply(keys, page, claims)
