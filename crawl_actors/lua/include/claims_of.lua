-- What message `token` has claimed for `page`: a list that begins with the token.
-- Nil when the page is finished or another message is at work on it.
local function claims_of(keys, page, token)
    if redis.call("HEXISTS", keys.open, page) == 0 then
        return nil
    end
    local claims = redis.call("HGET", keys.claims, page)
    if not claims then
        return { token }
    end
    claims = cjson.decode(claims)
    if claims[1] ~= token then
        return nil
    end
    return claims
end
