-- Let others have an entry at once, at its old place, with so many deliveries counted.
local function give_back(lane, group, released, entry, deliveries)
    redis.call("XCLAIM", lane, group, released, 0, entry, "RETRYCOUNT", deliveries, "JUSTID")
end
