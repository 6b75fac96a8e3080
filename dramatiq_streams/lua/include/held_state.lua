-- How many entries of a lane workers hold, the oldest of them, and the oldest that was given back.
local function held_state(lane, group, released, made_ms)
    local held, oldest_held, oldest_free = 0, -1, -1
    local summary = redis.pcall("XPENDING", lane, group)
    for _, pair in ipairs(not summary.err and summary[4] or {}) do
        local first = redis.call("XPENDING", lane, group, "-", "+", 1, pair[1])[1]
        local time = first and made_ms(first[1]) or -1
        if pair[1] == released then
            oldest_free = time
        else
            held = held + tonumber(pair[2])
            oldest_held = oldest_held < 0 and time or math.min(oldest_held, time)
        end
    end
    return held, oldest_held, oldest_free
end
