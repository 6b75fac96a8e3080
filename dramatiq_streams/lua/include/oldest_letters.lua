-- The ids of the oldest dead letters, up to `count`.
local function oldest_letters(dead, count)
    local ids = {}
    if count > 0 then
        for _, stored in ipairs(redis.call("XRANGE", dead, "-", "+", "COUNT", count)) do
            table.insert(ids, stored[1])
        end
    end
    return ids
end
