-- Deliver up to `count` entries of a lane that nobody works on any more, in their old order.
-- Each is {entry, deliveries, fields}; a last delivery is negative: `begin` counts it as it starts.
local function retake(lane, group, consumer, released, count, max_deliveries)
    local taken = {}
    local waiting = count > 0 and redis.call("XPENDING", lane, group, "-", "+", count, released)
    for _, pending in ipairs(waiting or {}) do
        local before = pending[4]
        local is_last = max_deliveries > 1 and before + 1 >= max_deliveries
        local deliveries = is_last and before or before + 1
        local entry = redis.call(
            "XCLAIM", lane, group, consumer, 0, pending[1], "RETRYCOUNT", deliveries
        )[1]
        if entry then
            table.insert(taken, { entry[1], is_last and -deliveries or deliveries, entry[2] })
        else
            -- It was deleted from the stream: Redis 6.2 keeps it pending.
            redis.call("XACK", lane, group, pending[1])
        end
    end
    return taken
end
