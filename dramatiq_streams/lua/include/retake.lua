-- Deliver up to `count` entries of a lane that nobody works on any more, in their old order.
-- Each is {entry, deliveries, fields}.
local function retake(lane, group, consumer, released, count)
    local taken = {}
    local waiting = count > 0 and redis.call("XPENDING", lane, group, "-", "+", count, released)
    for _, pending in ipairs(waiting or {}) do
        local entry = redis.call("XCLAIM", lane, group, consumer, 0, pending[1])[1]
        if entry then
            table.insert(taken, { entry[1], pending[4] + 1, entry[2] })
        else
            -- It was deleted from the stream: Redis 6.2 keeps it pending.
            redis.call("XACK", lane, group, pending[1])
        end
    end
    return taken
end
