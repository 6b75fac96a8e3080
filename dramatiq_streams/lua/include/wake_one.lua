-- Wake one blocked consumer, if there is any, so that it reads anew.
-- One entry is enough: whoever gets it sees all there is. A refusal (no memory) costs time only.
local function wake_one(wake)
    redis.pcall("XADD", wake, "MAXLEN", 1, "*", "w", "1")
end
