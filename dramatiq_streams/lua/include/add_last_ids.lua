-- Add to a flat reply, if asked, how many streams there are and the greatest id each ever had.
-- When a read has just found nothing in them, nothing is beyond it.
local function add_last_ids(reply, is_asked, streams)
    streams = is_asked and streams or {}
    table.insert(reply, #streams)
    for _, stream in ipairs(streams) do
        local facts = redis.call("XINFO", "STREAM", stream)
        for index = 1, #facts, 2 do
            if facts[index] == "last-generated-id" then
                table.insert(reply, facts[index + 1])
            end
        end
    end
end
