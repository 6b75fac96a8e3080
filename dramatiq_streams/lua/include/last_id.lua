-- The greatest id that a stream has ever had. Nothing waits in it when a read has just found nothing.
local function last_id(stream)
    local facts = redis.call("XINFO", "STREAM", stream)
    for index = 1, #facts, 2 do
        if facts[index] == "last-generated-id" then
            return facts[index + 1]
        end
    end
end
