-- Of the entries of a lane that a consumer holds, the `count` oldest: entry -> deliveries.
local function held_by(lane, group, consumer, count)
    local held = {}
    local found = redis.pcall("XPENDING", lane, group, "-", "+", count, consumer)
    -- A queue that was flushed has neither stream nor group: then nobody holds anything.
    for _, pending in ipairs(not found.err and found or {}) do
        held[pending[1]] = pending[4]
    end
    return held
end
