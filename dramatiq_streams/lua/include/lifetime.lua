-- How long a dead letter is kept: as its message says, or its actor, else `ttl`. What an encoder
-- other than JSON has written is not understood.
local function lifetime(message, ttl, ttls)
    local is_read, fields = pcall(cjson.decode, message)
    if not is_read or type(fields) ~= "table" then
        return ttl
    end
    local options = type(fields.options) == "table" and fields.options or {}
    local own = options.dead_message_ttl
    if type(own) == "number" and own >= 1 and own < 1e13 then
        return own
    end
    return ttls[fields.actor_name] or ttl
end
