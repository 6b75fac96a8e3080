-- Note the last row that came in. Only after it was added: a server that is out of memory refuses
-- that, and then the row must not be noted.
local function note_row(spools, spool, row, ttl, time)
    if redis.call("HSET", spools, spool, row) == 1 then
        -- For each new one two are looked at, so that old ones do not pile up. The rows of a spool
        -- are microseconds since 1970; what is below 2001 is counted from one, and stays.
        local found = redis.call("HRANDFIELD", spools, 2, "WITHVALUES")
        for i = 1, #found, 2 do
            local noted = tonumber(found[i + 1])
            if found[i] ~= spool and noted > 1e15 and noted < (time - ttl) * 1000 then
                redis.call("HDEL", spools, found[i])
            end
        end
    end
    redis.call("PEXPIRE", spools, ttl)
end
