-- Remove each acknowledged {lane, entry, deliveries} that is held; return where the others stand.
-- With a 1 behind these, free the unique key of the entry.
local function settle(lanes, group, consumer, acks, owned, remove, free_key)
    local refused, held = {}, {}
    for position, ack in ipairs(acks) do
        local lane = lanes[ack[1]]
        if owned(lane, group, consumer, ack[2], ack[3]) then
            held[lane] = held[lane] or {}
            table.insert(held[lane], ack[2])
            if ack[4] == 1 then free_key(lane, ack[2]) end
        else
            table.insert(refused, position)
        end
    end
    for lane, entries in pairs(held) do
        remove(lane, group, entries)
    end
    return refused
end
