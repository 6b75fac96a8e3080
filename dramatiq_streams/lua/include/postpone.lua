-- Hold a message back until its eta; the earliest one wakes a consumer to wait for it.
-- A reservation stands before the message, and its length behind the name of the lane.
local function postpone(delayed, delayed_messages, delivery, lane_name, message, eta, reservation)
    local earliest = redis.call("ZRANGE", delayed, 0, 0, "WITHSCORES")[2]
    local head = reservation and "/" .. #reservation .. ":" .. reservation or ":"
    redis.call("HSET", delayed_messages, delivery, lane_name .. head .. message)
    redis.call("ZADD", delayed, string.format("%.0f", eta), delivery)
    return not earliest or eta < tonumber(earliest)
end
