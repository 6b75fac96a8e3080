-- Decide over a delivery whose worker died: 1 when it is free now, 0 when it was deleted, 2 when
-- it was delivered too often and became a dead letter.
local function reclaim(at, entry, now, body, bury, remove)
    local stored = redis.call("XRANGE", at.lane, entry, entry)[1]
    local pending = redis.call("XPENDING", at.lane, at.group, entry, entry, 1)[1]
    if not stored then
        -- Redis 6.2 keeps claiming what was deleted from the stream.
        redis.call("XACK", at.lane, at.group, entry)
        return 0
    end
    if pending[4] < at.max_deliveries then
        return 1
    end
    local message, reservation = body(stored[2]), at.reservation_of(stored[2])
    bury(at, now(), {
        message = message, ttl = at.lifetime(message, at.ttl, at.ttls), reason = "max_deliveries",
        error = "Delivered " .. pending[4] .. " times and never settled.",
        lane = at.lane_name, entry = entry, deliveries = pending[4], reservation = reservation,
    })
    at.free(at.unique, at.unique_messages, reservation, now())
    remove(at.lane, at.group, { entry })
    return 2
end
