-- Let others have the unique key of a reservation, if that is still the one that has it.
-- It is remembered for a minute: sent again because its reply was lost, it changes nothing.
local function free(unique, unique_messages, reservation, time)
    local token, key = string.match(reservation or "", "^(%w+):(.*)$")
    local record = token and redis.call("HGET", unique_messages, key)
    if not record or string.sub(record, 1, #token + 1) ~= token .. ":" then
        return 0
    end
    -- What only removes comes first: then a full server does not refuse the rest.
    redis.call("ZREM", unique, key)
    redis.call("HSET", unique_messages, key, token .. "-")
    redis.call("ZADD", unique, string.format("%.0f", time + 60000), key)
    return 1
end
