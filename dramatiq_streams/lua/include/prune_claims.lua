-- Remove what has expired from the next `count` claims or so, the place to go on from being
-- `cursor`: "0" at the beginning and at the end. Returns that place, and how many are removed.
local function prune_claims(claims, time, cursor, count)
    local found = redis.call("HSCAN", claims, cursor, "COUNT", count)
    local fields, removed = found[2], 0
    for index = 1, #fields, 2 do
        if is_over(fields[index + 1], time) then
            removed = removed + redis.call("HDEL", claims, fields[index])
        end
    end
    return found[1], removed
end
