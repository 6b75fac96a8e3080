-- Of each consumer whose last heartbeat was more than `late` before `time`: name, heartbeat, its
-- connections. And of each whose heartbeat is as much later: then the clock was set back since.
local function overdue(consumers, connections, time, late, limit)
    local found = redis.call(
        "ZRANGE", consumers, "-inf", time - late, "BYSCORE", "LIMIT", 0, limit, "WITHSCORES"
    )
    local premature = redis.call(
        "ZRANGE", consumers, time + late, "+inf", "BYSCORE", "LIMIT", 0, limit, "WITHSCORES"
    )
    for _, value in ipairs(premature) do
        table.insert(found, value)
    end
    local reply = {}
    for index = 1, #found, 2 do
        table.insert(reply, found[index])
        table.insert(reply, found[index + 1])
        table.insert(reply, redis.call("HGET", connections, found[index]) or "")
    end
    return reply
end
