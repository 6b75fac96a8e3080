-- Lower the depth of a known `url`, and note what follows from it: its recorded links have to be
-- looked at again, and its stored depth is wrong once it is finished.
local function come_nearer(keys, url, depth)
    local known = tonumber(redis.call("HGET", keys.depths, url))
    if not known or depth >= known then
        return
    end
    redis.call("HSET", keys.depths, url, depth)
    if redis.call("HEXISTS", keys.links, url) == 1 then
        redis.call("HSET", keys.relax, url, 0)
    end
    if redis.call("HEXISTS", keys.open, url) == 0 then
        redis.call("SADD", keys.nearer, url)
    end
end
