-- Keep the site until a minute after *instant*, which is the latest that counts.
local function keep_past(site, instant, time)
    redis.call("PEXPIRE", site, math.max(instant - time, 0) + 60000)
end
