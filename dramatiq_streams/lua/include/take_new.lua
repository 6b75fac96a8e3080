-- Deliver up to `count` entries of a lane for the first time. Each is {entry, deliveries, fields}.
local function take_new(lane, group, consumer, count)
    local taken = {}
    local read = count > 0 and redis.call(
        "XREADGROUP", "GROUP", group, consumer, "COUNT", count, "STREAMS", lane, ">"
    )
    for _, entry in ipairs(read and read[1][2] or {}) do
        table.insert(taken, { entry[1], 1, entry[2] })
    end
    return taken
end
