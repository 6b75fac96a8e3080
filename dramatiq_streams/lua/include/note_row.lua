-- Note the last row that came in. Only after it was added: a server that is out of memory refuses
-- that, and then the row must not be noted.
local function note_row(spools, spool, row, ttl)
    redis.call("HSET", spools, spool, row)
    redis.call("PEXPIRE", spools, ttl)
end
