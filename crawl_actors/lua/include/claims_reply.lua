-- Keep `claims` and return what is to be done: relaxations left, then URL and hops of each claim.
local function claims_reply(keys, page, claims)
    redis.call("HSET", keys.claims, page, cjson.encode(claims))
    local reply = { redis.call("HLEN", keys.relax) + redis.call("SCARD", keys.nearer) }
    for index = 2, #claims do
        local hops = redis.call("HGET", keys.open, claims[index])
        if hops then
            reply[#reply + 1] = claims[index]
            reply[#reply + 1] = hops
        end
    end
    return reply
end
