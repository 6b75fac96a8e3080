--[[
Claim keys for an owner, those that nobody has; what the owner has already stays its own.

A claim's field is the key's digest, its value 6 bytes of owner and 6 of the expiry in server
milliseconds. Twice as many other claims are looked through for expired ones; when all have been,
none are for a quarter of their time. O(digests).

KEYS
  claims  hash    digest -> owner and expiry
  cursor  string  where to go on looking for expired claims, or rest
ARGV
  owner    bytes  6 bytes; the same again gets the same claims
  ttl      int    milliseconds that new claims live
  digests  bytes  16 bytes each, 1000 at most, none twice
RETURNS
  str      one character for each digest: 1 when the owner has it now, 0 when somebody else has
]]
--- @include "now"
--- @include "digests_of"
--- @include "is_over"
--- @include "prune_claims"
--- @include "note_place"

local claims, cursor = KEYS[1], KEYS[2]
local owner, ttl, digests = ARGV[1], tonumber(ARGV[2]), digests_of(ARGV[3])

local time = now()
local record = owner .. struct.pack(">I6", time + ttl)
local new, answers = {}, {}
for index, held in ipairs(redis.call("HMGET", claims, unpack(digests))) do
    local is_free = is_over(held, time)
    if is_free then
        new[#new + 1] = digests[index]
        new[#new + 1] = record
    end
    answers[index] = (is_free or string.sub(held, 1, 6) == owner) and "1" or "0"
end
local place = redis.call("GET", cursor) or "0"
if place ~= "rest" then
    note_place(cursor, prune_claims(claims, time, place, 2 * #digests), math.ceil(ttl / 4), ttl)
end
if #new > 0 then
    redis.call("HSET", claims, unpack(new))
    redis.call("PEXPIRE", claims, math.max(redis.call("PTTL", claims), ttl))
end
return table.concat(answers)
