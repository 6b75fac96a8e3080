-- A function that frees the unique key of an entry, if it has one that is still its own.
local function freeing(unique, unique_messages, now, reservation_of, free)
    return function(lane, entry)
        local stored = redis.call("XRANGE", lane, entry, entry)[1]
        local reservation = stored and reservation_of(stored[2])
        return free(unique, unique_messages, reservation, now())
    end
end
