-- When an entry was made, in server milliseconds: the first half of its id.
local function made_ms(entry)
    return tonumber(string.match(entry, "^%d+"))
end
