-- Note that a consumer is alive; returns the server's time, and its neighbours with their
-- processes.
local function heartbeat(consumers, connections, host, me, now)
    -- What only removes comes first: a script that has written is not refused when memory is full,
    -- and one whose heartbeat was refused would soon be taken for dead.
    redis.call("HDEL", connections, me.consumer)
    redis.call("HSET", connections, me.consumer, me.ids)
    local time = now()
    redis.call("ZADD", consumers, time, me.consumer)
    if me.identity == "" then
        return time, {}
    end
    redis.call("HSET", host, me.consumer, me.identity)
    redis.call("PEXPIRE", host, me.host_ttl)
    return time, redis.call("HGETALL", host)
end
