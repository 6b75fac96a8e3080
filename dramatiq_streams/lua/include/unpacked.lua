-- Of a delayed message: the name of its lane, the message, and its reservation or nil.
-- Without a colon it is nobody's message: all of it goes on, and the reader dead-letters it.
local function unpacked(packed)
    local colon = string.find(packed, ":", 1, true) or 0
    local lane_name, rest = string.sub(packed, 1, colon - 1), string.sub(packed, colon + 1)
    local slash = colon > 0 and string.find(lane_name, "/", 1, true)
    if not slash then
        return lane_name, rest, nil
    end
    local size = tonumber(string.sub(lane_name, slash + 1)) or 0
    lane_name = string.sub(lane_name, 1, slash - 1)
    return lane_name, string.sub(rest, size + 1), string.sub(rest, 1, size)
end
