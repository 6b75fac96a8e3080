-- Move the messages that are due to their lanes, earliest first, at most `limit`; count them.
-- When the server refuses to store more (out of memory) the rest stay where they are.
local function forward(delayed, delayed_messages, lanes, position_of, time, limit)
    local count = 0
    local due = redis.call("ZRANGE", delayed, "-inf", time, "BYSCORE", "LIMIT", 0, limit)
    for _, delivery in ipairs(due) do
        local packed = redis.call("HGET", delayed_messages, delivery)
        if packed then
            -- Without a colon it is nobody's message: the reader dead-letters it.
            local colon = string.find(packed, ":", 1, true) or 0
            local lane = lanes[position_of(string.sub(packed, 1, colon - 1))]
            local added = redis.pcall("XADD", lane, "*", "m", string.sub(packed, colon + 1))
            if type(added) == "table" then break end
        end
        redis.call("ZREM", delayed, delivery)
        redis.call("HDEL", delayed_messages, delivery)
        count = count + 1
    end
    return count
end
