--[[
Mark a stored page as finished, unless it came nearer after it was stored.

Nothing happens when it is finished already or another message is at work on it. When no page is
open any more, the crawl's state expires after `ttl`.

KEYS
  depths    hash    URL -> clicks from a seed
  open      hash    URL -> redirects that led to it, until it is finished
  links     hash    URL -> its links
  claims    hash    page at work -> list of the owning message and what it claimed
  relax     hash    URL that came nearer -> how many of its links were looked at again
  nearer    set     finished URLs whose stored depth is too high
  counts    hash    outcome -> pages finished with it, and their bytes
  settings  string  the crawl's settings
  resent    hash    URL -> how often it was sent again because its message had vanished
ARGV
  page     url  the page
  token    id   the message that expanded it, empty when none did
  depth    int  the depth it was stored with
  outcome  str  what to count it as
  bytes    int  the length of its body
  ttl      int  ms
RETURNS
  array  its depth, 1 when this call finished it, pages still open
]]
--- @include "claims_of"

local keys = { depths = KEYS[1], open = KEYS[2], links = KEYS[3], claims = KEYS[4] }
keys.relax, keys.nearer, keys.counts = KEYS[5], KEYS[6], KEYS[7]
keys.settings, keys.resent = KEYS[8], KEYS[9]
local page, token, depth = ARGV[1], ARGV[2], tonumber(ARGV[3])
local outcome, bytes, ttl = ARGV[4], ARGV[5], ARGV[6]

if not claims_of(keys, page, token) then
    return { depth, 0, redis.call("HLEN", keys.open) }
end
local current = tonumber(redis.call("HGET", keys.depths, page))
if current ~= depth then
    return { current, 0, redis.call("HLEN", keys.open) }
end
redis.call("HDEL", keys.open, page)
redis.call("HDEL", keys.claims, page)
redis.call("HINCRBY", keys.counts, outcome, 1)
redis.call("HINCRBY", keys.counts, "bytes", bytes)
local left = redis.call("HLEN", keys.open)
if left == 0 then
    for _, key in pairs(keys) do
        redis.call("PEXPIRE", key, ttl)
    end
end
return { depth, 1, left }
