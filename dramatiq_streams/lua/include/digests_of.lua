-- The digests, of 16 bytes each, that stand one after another in `text`.
local function digests_of(text)
    local digests = {}
    for first = 1, #text, 16 do
        digests[#digests + 1] = string.sub(text, first, first + 15)
    end
    return digests
end
