-- Add a dead letter, and drop those that are older than `ttl`.
local function bury(dead, ttl, time, letter)
    local oldest = math.max(time - ttl, 0)
    local fields = {
        "m", letter.message, "reason", letter.reason, "error", letter.error,
        "lane", letter.lane, "entry", letter.entry, "deliveries", letter.deliveries,
    }
    if letter.reservation then
        table.insert(fields, "u")
        table.insert(fields, letter.reservation)
    end
    redis.call("XADD", dead, "MINID", "~", string.format("%.0f", oldest), "*", unpack(fields))
end
