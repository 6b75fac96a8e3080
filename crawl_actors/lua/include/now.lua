-- The server's clock, in whole milliseconds since 1970.
local function now()
    local time = redis.call("TIME")
    return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
