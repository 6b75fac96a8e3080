-- Of each consumer whose last heartbeat was before `before`: name, heartbeat, its connections.
local function overdue(consumers, connections, before, limit)
    local found = redis.call(
        "ZRANGE", consumers, "-inf", before, "BYSCORE", "LIMIT", 0, limit, "WITHSCORES"
    )
    local late = {}
    for index = 1, #found, 2 do
        table.insert(late, found[index])
        table.insert(late, found[index + 1])
        table.insert(late, redis.call("HGET", connections, found[index]) or "")
    end
    return late
end
