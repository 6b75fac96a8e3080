-- Take `url` up; false when it is known or the budget of `max_pages` (-1: none) is used up.
local function claim(keys, url, depth, hops, max_pages)
    if redis.call("HEXISTS", keys.depths, url) == 1 then
        return false
    end
    if max_pages >= 0 and redis.call("HLEN", keys.depths) >= max_pages then
        return false
    end
    redis.call("HSET", keys.depths, url, depth)
    redis.call("HSET", keys.open, url, hops)
    return true
end
