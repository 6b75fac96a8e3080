-- Whether nobody has claimed a key, whose claim is `held`, at `time`.
local function is_over(held, time)
    return not held or struct.unpack(">I6", held, 7) <= time
end
