-- Add each {entry, deliveries, fields}, found in the lane at its position, to a flat reply:
-- lane, entry, deliveries, message.
local function add_entries(reply, found, body)
    for position, entries in ipairs(found) do
        for _, entry in ipairs(entries) do
            table.insert(reply, position)
            table.insert(reply, entry[1])
            table.insert(reply, entry[2])
            table.insert(reply, body(entry[3]))
        end
    end
end
