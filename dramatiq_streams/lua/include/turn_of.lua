-- Whether a row comes in now: 1, or 0 when it came before, or -1 when its predecessor is missing.
local function turn_of(spools, spool, row, previous)
    local last = tonumber(redis.call("HGET", spools, spool) or 0)
    if tonumber(row) <= last then
        return 0
    end
    return previous > last and -1 or 1
end
