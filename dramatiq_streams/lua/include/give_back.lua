-- Let others have an entry at once, at its old place, as if it had not been delivered this time.
local function give_back(lane, group, released, entry, deliveries)
    redis.call(
        "XCLAIM", lane, group, released, 0, entry, "RETRYCOUNT", deliveries - 1, "JUSTID"
    )
end
