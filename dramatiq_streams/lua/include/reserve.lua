-- Note who has a unique key, and until when.
-- To be called after the message was stored: a full server refuses the first write of a script.
local function reserve(unique, unique_messages, key, token, message_id, expiry)
    redis.call("HSET", unique_messages, key, token .. ":" .. message_id)
    redis.call("ZADD", unique, string.format("%.0f", expiry), key)
end
