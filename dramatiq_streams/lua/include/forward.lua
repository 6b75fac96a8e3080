-- Move the messages that are due to their lanes, earliest first, at most `limit`; count them.
-- When the server refuses to store more (out of memory) the rest stay where they are.
local function forward(delayed, messages, lanes, position_of, time, limit, unpacked, entry_of)
    local count = 0
    local due = redis.call("ZRANGE", delayed, "-inf", time, "BYSCORE", "LIMIT", 0, limit)
    for _, delivery in ipairs(due) do
        local packed = redis.call("HGET", messages, delivery)
        if packed then
            local lane_name, message, reservation = unpacked(packed)
            local lane = lanes[position_of(lane_name)]
            local added = redis.pcall("XADD", lane, "*", unpack(entry_of(message, reservation)))
            if type(added) == "table" then break end
        end
        redis.call("ZREM", delayed, delivery)
        redis.call("HDEL", messages, delivery)
        count = count + 1
    end
    return count
end
