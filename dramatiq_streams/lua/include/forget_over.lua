-- Forget up to `limit` reservations whose time is over; returns how many.
local function forget_over(unique, unique_messages, time, limit)
    local over = redis.call("ZRANGE", unique, "-inf", time, "BYSCORE", "LIMIT", 0, limit)
    if #over > 0 then
        redis.call("ZREM", unique, unpack(over))
        redis.call("HDEL", unique_messages, unpack(over))
    end
    return #over
end
