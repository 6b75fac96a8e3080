-- Remove each acknowledged {lane, entry, deliveries} that is held; return where the others stand.
local function settle(lanes, group, consumer, acks, owned, remove)
    local refused, held = {}, {}
    for position, ack in ipairs(acks) do
        local lane = lanes[ack[1]]
        if owned(lane, group, consumer, ack[2], ack[3]) then
            held[lane] = held[lane] or {}
            table.insert(held[lane], ack[2])
        else
            table.insert(refused, position)
        end
    end
    for lane, entries in pairs(held) do
        remove(lane, group, entries)
    end
    return refused
end
