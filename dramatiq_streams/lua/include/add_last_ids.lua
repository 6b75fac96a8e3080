-- Add to a flat reply, if asked, how many streams there are and the greatest id each ever had.
-- When a read has just found nothing in them, nothing is beyond it.
local function add_last_ids(reply, is_asked, streams)
    streams = is_asked and streams or {}
    table.insert(reply, #streams)
    for _, stream in ipairs(streams) do
        -- A queue that is paused before it is first read has no streams yet.
        local facts, last = redis.pcall("XINFO", "STREAM", stream), "0-0"
        for index = 1, facts.err and 0 or #facts, 2 do
            if facts[index] == "last-generated-id" then
                last = facts[index + 1]
            end
        end
        table.insert(reply, last)
    end
end
