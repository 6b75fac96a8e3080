-- Append all of `parts` to `reply`.
local function extend_reply(reply, parts)
    for _, part in ipairs(parts) do
        table.insert(reply, part)
    end
    return reply
end
