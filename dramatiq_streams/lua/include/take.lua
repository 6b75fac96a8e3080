-- Deliver up to `count` entries of a lane: first those that nobody works on any more, in their old
-- place, then new ones. Each is {entry, deliveries, fields}; the second value counts the former.
local function take(lane, group, consumer, released, count)
    local taken = {}
    for _, pending in ipairs(redis.call("XPENDING", lane, group, "-", "+", count, released)) do
        local entry = redis.call("XCLAIM", lane, group, consumer, 0, pending[1])[1]
        if entry then
            table.insert(taken, { entry[1], pending[4] + 1, entry[2] })
        else
            redis.call("XACK", lane, group, pending[1])
        end
    end
    local again = #taken
    if again == count then
        return taken, again
    end
    local read = redis.call(
        "XREADGROUP", "GROUP", group, consumer, "COUNT", count - again, "STREAMS", lane, ">"
    )
    for _, entry in ipairs(read and read[1][2] or {}) do
        table.insert(taken, { entry[1], 1, entry[2] })
    end
    return taken, again
end
