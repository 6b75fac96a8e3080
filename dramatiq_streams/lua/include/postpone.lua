-- Hold a message back until its eta; the earliest one wakes a consumer to wait for it.
local function postpone(delayed, delayed_messages, delivery, lane_name, message, eta)
    local earliest = redis.call("ZRANGE", delayed, 0, 0, "WITHSCORES")[2]
    redis.call("HSET", delayed_messages, delivery, lane_name .. ":" .. message)
    redis.call("ZADD", delayed, string.format("%.0f", eta), delivery)
    return not earliest or eta < tonumber(earliest)
end
