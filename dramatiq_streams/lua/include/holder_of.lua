-- Which message has a unique key: "" for the delivery that asks, also when that has ended since;
-- nil when the key is free.
local function holder_of(unique, unique_messages, key, token, time)
    local record = redis.call("HGET", unique_messages, key)
    if not record or tonumber(redis.call("ZSCORE", unique, key) or 0) <= time then
        return nil
    end
    local owner, state, message_id = string.match(record, "^(%w+)([:-])(.*)$")
    if owner == token then
        return ""
    end
    return state == ":" and message_id or nil
end
