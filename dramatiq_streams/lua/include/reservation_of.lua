-- The reservation of a unique key that an entry carries: a token, a colon, the key; nil for most.
local function reservation_of(fields)
    for index = 3, #fields, 2 do
        if fields[index] == "u" then
            return fields[index + 1]
        end
    end
    return nil
end
