-- The server's clock, in whole microseconds since 1970: exact in a double until the year 2255.
local function micros()
    local time = redis.call("TIME")
    return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
