-- Add a dead letter, to be dropped after `letter.ttl`; drop up to ten whose time has come, and up
-- to ten of the oldest beyond the most that are kept. Returns how many of the latter.
local function bury(at, time, letter)
    local id = at.add_letter(at.dead, letter)
    redis.call("ZADD", at.expiries, string.format("%.0f", time + letter.ttl), id)
    local over = redis.call("ZRANGE", at.expiries, "-inf", time, "BYSCORE", "LIMIT", 0, 10)
    at.drop_letters(at.dead, at.expiries, over)
    local excess = math.min(redis.call("XLEN", at.dead) - at.most, 10)
    return at.drop_letters(at.dead, at.expiries, at.oldest_letters(at.dead, excess))
end
