-- Does the consumer hold this very delivery? After a recovery the count of deliveries differs.
-- A queue that was flushed has neither stream nor group: then nobody holds anything.
local function owned(lane, group, consumer, entry, deliveries)
    local pending = redis.pcall("XPENDING", lane, group, entry, entry, 1, consumer)
    return not pending.err and #pending == 1 and pending[1][4] == deliveries
end
