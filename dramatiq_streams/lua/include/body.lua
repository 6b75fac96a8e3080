-- The encoded message in an entry's fields; "" when a stranger wrote the entry.
local function body(fields)
    for index = 1, #fields, 2 do
        if fields[index] == "m" then
            return fields[index + 1]
        end
    end
    return ""
end
