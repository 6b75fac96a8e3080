-- Take entries off a lane for good. At most some thousand: unpack has a limit.
local function remove(lane, group, entries)
    redis.call("XACK", lane, group, unpack(entries))
    redis.call("XDEL", lane, unpack(entries))
end
