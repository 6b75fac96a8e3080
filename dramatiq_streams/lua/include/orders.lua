-- What operators have ordered: 1 or 0 for a paused queue, and whether entries were cancelled.
-- Mostly there is nothing, and then this is all that it costs.
local function orders(paused, cancelled)
    if redis.call("EXISTS", paused, cancelled) == 0 then
        return 0, false
    end
    return redis.call("EXISTS", paused), redis.call("EXISTS", cancelled) == 1
end
