-- The set of entries of a lane that a consumer holds, and that have idled for a lease.
local function idle_entries(at, consumer)
    local found = {}
    local filter = { "IDLE", at.lease, "-", "+", at.limit * 10, consumer }
    local idle = redis.pcall("XPENDING", at.lane, at.group, unpack(filter))
    for _, pending in ipairs(not idle.err and idle or {}) do
        found[pending[1]] = true
    end
    return found
end
