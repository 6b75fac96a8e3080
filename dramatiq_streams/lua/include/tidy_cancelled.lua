-- Look at the mark that nobody has looked at for longest; forget it when its entry is gone.
local function tidy_cancelled(cancelled, lanes, positions, time)
    local mark = redis.call("ZRANGE", cancelled, 0, 0)[1]
    if not mark then return end
    local colon = string.find(mark, ":", 1, true) or 0
    local lane = lanes[positions[string.sub(mark, 1, colon - 1)] or -1]
    local entry = string.sub(mark, colon + 1)
    if lane and #redis.call("XRANGE", lane, entry, entry) > 0 then
        redis.pcall("ZADD", cancelled, string.format("%.0f", time), mark)
    else
        redis.call("ZREM", cancelled, mark)
    end
end
