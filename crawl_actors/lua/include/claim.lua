-- Take `url` up unless it is known or the budget of `max_pages` (-1: none) is used up; true if taken.
-- A known one that turns out to be nearer has its recorded links looked at again.
local function claim(keys, url, depth, hops, limits)
    local known = tonumber(redis.call("HGET", keys.depths, url))
    if not known then
        if limits.max_pages >= 0 and redis.call("HLEN", keys.depths) >= limits.max_pages then
            return false
        end
        redis.call("HSET", keys.depths, url, depth)
        redis.call("HSET", keys.open, url, hops)
        return true
    end
    if limits.max_depth >= 0 and depth < known then
        redis.call("HSET", keys.depths, url, depth)
        if redis.call("HEXISTS", keys.links, url) == 1 then
            redis.call("HSET", keys.relax, url, 0)
        end
        if redis.call("HEXISTS", keys.open, url) == 0 then
            redis.call("SADD", keys.nearer, url)
        end
    end
    return false
end
