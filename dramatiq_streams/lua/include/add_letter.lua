-- Add a dead letter; returns its id.
local function add_letter(dead, letter)
    local fields = {
        "m", letter.message, "reason", letter.reason, "error", letter.error,
        "lane", letter.lane, "entry", letter.entry, "deliveries", letter.deliveries,
    }
    if letter.reservation then
        table.insert(fields, "u")
        table.insert(fields, letter.reservation)
    end
    return redis.call("XADD", dead, "*", unpack(fields))
end
