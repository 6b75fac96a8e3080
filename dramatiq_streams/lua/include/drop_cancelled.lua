-- Drop an entry for good when it was cancelled, and count it; false when it was not.
local function drop_cancelled(cancelled, counts, lane_name, lane, group, entry, remove, free_key)
    if redis.call("ZREM", cancelled, lane_name .. ":" .. entry) == 0 then
        return false
    end
    free_key(lane, entry)
    remove(lane, group, { entry })
    redis.pcall("HINCRBY", counts, "cancelled", 1)
    return true
end
