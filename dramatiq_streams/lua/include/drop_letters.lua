-- Drop dead letters; returns how many were still there. At most some thousand: unpack has a limit.
local function drop_letters(dead, expiries, letters)
    if #letters == 0 then
        return 0
    end
    redis.call("ZREM", expiries, unpack(letters))
    return redis.call("XDEL", dead, unpack(letters))
end
