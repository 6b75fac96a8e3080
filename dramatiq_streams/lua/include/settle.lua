-- Remove each acknowledged {lane, entry, deliveries} that is held; return where the others stand,
-- and whether one of lane 0 was held: a call to read.
-- With a 1 behind these, free the unique key of the entry.
local function settle(lanes, group, consumer, acks, held_by, owned, remove, free_key)
    local refused, held, removed = {}, {}, {}
    for position, ack in ipairs(acks) do
        local lane, entry, deliveries = lanes[ack[1]], ack[2], ack[3]
        if not held[lane] then
            -- In one call instead of one for each: they are among the oldest that it holds.
            held[lane], removed[lane] = held_by(lane, group, consumer, 2 * #acks), {}
        end
        local found = held[lane][entry]
        if found == deliveries or not found and owned(lane, group, consumer, entry, deliveries) then
            table.insert(removed[lane], entry)
            if ack[4] == 1 then free_key(lane, entry) end
        else
            table.insert(refused, position)
        end
    end
    for lane, entries in pairs(removed) do
        if #entries > 0 then remove(lane, group, entries) end
    end
    return refused, #(removed[lanes[0]] or {}) > 0
end
