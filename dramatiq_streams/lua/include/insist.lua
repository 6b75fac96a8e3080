-- Have a server that is out of memory carry out the rest of the script, which stores something in
-- place of `entry`: it refuses only the first write of a script, and never this one, that changes
-- nothing but the idle time.
local function insist(lane, group, consumer, entry)
    redis.call("XCLAIM", lane, group, consumer, 0, entry, "JUSTID")
end
