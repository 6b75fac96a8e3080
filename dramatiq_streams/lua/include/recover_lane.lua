-- Take back what has idled for a lease in one lane; `counts` gets how many of each verdict of
-- `judge`. Returns where to go on.
local function recover_lane(at, cursor, counts, judge, idle_entries)
    -- What is free already and idles for long is claimed once more; that frees nothing.
    local free = idle_entries(at, at.released)
    -- JUSTID: the count of deliveries stays; it grows when somebody takes the entry.
    local range = { at.lease, cursor, "COUNT", at.limit, "JUSTID" }
    local claimed = redis.pcall("XAUTOCLAIM", at.lane, at.group, at.released, unpack(range))
    for _, entry in ipairs(not claimed.err and claimed[2] or {}) do
        local verdict = judge(at, entry)
        if verdict ~= 1 or not free[entry] then
            counts[verdict] = counts[verdict] + 1
        end
    end
    return claimed.err and "0-0" or claimed[1]
end
