-- The greatest id a stream ever had. When a read has just found nothing, nothing is beyond it.
local function last_id(stream)
    local facts = redis.call("XINFO", "STREAM", stream)
    for index = 1, #facts, 2 do
        if facts[index] == "last-generated-id" then
            return facts[index + 1]
        end
    end
end
