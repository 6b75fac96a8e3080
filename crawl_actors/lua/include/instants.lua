-- The instants known of a site, 0 for one that is not: `next`, `closed`, `last`.
local function instants(site)
    local known = redis.call("HMGET", site, "next", "closed", "last")
    return tonumber(known[1]) or 0, tonumber(known[2]) or 0, tonumber(known[3]) or 0
end
