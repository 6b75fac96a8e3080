--[[
Drop dead letters whose time has come, and the oldest where there are too many.

Where fewer have a time than there are letters, because a migration has brought some or the times
were lost, those without one get it: O(limit) from `after` on. Call again with the id it returns,
and while it drops `limit` or more.

KEYS
  dead           stream  dead letters
  dead_expiries  zset    dead letter -> when it is dropped
ARGV
  ttl    int   milliseconds that dead letters are kept
  ttls   json  the same for actors that have their own, by their names
  most   int   how many are kept, the newest
  limit  int   the most to drop for either reason, and to look at
  after  str   the last letter that was looked at; "" at first
RETURNS
  array  how many were dropped because their time had come, how many because there were too many,
         where to look on, or "" when there is nothing to look at
]]
--- @include "now"
--- @include "body"
--- @include "made_ms"
--- @include "drop_letters"
--- @include "oldest_letters"
--- @include "lifetime"

local dead, expiries, ttl, ttls = KEYS[1], KEYS[2], tonumber(ARGV[1]), cjson.decode(ARGV[2])
local most, limit, after = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

local last = ""
if redis.call("ZCARD", expiries) < redis.call("XLEN", dead) then
    local start = after == "" and "-" or "(" .. after
    local found = redis.call("XRANGE", dead, start, "+", "COUNT", limit)
    for _, stored in ipairs(found) do
        local expiry = made_ms(stored[1]) + lifetime(body(stored[2]), ttl, ttls)
        redis.call("ZADD", expiries, "NX", string.format("%.0f", expiry), stored[1])
        last = stored[1]
    end
end
local over = redis.call("ZRANGE", expiries, "-inf", now(), "BYSCORE", "LIMIT", 0, limit)
drop_letters(dead, expiries, over)
local excess = math.min(redis.call("XLEN", dead) - most, limit)
excess = drop_letters(dead, expiries, oldest_letters(dead, excess))
return { #over, excess, last }
