-- What a lane's group has delivered: the last entry, and how many; -1 when the server cannot tell.
local function group_state(lane, group)
    local groups = redis.pcall("XINFO", "GROUPS", lane)
    for _, info in ipairs(groups.err and {} or groups) do
        local told = {}
        for index = 1, #info, 2 do
            told[info[index]] = info[index + 1]
        end
        if told["name"] == group then
            return told["last-delivered-id"], tonumber(told["entries-read"] or -1)
        end
    end
    return "0-0", -1
end
