-- The fields of an entry for a message, and for its reservation if it has one.
local function entry_of(message, reservation)
    if reservation then
        return { "m", message, "u", reservation }
    end
    return { "m", message }
end
