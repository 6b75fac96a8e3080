-- Say where to look on for expired claims; after all of them, that it may wait for `rest` ms.
local function note_place(cursor, place, rest, ttl)
    if place == "0" then
        redis.call("SET", cursor, "rest", "PX", rest)
    else
        redis.call("SET", cursor, place, "PX", ttl)
    end
end
