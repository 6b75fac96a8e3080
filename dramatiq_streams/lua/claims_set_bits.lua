--[[
Set the bits of some keys in a Bloom filter, and say of each key whether one of them was not set.

O(bits).

KEYS
  bits  string  the filter
ARGV
  hashes   int    how many bits each key has
  offsets  bytes  4 bytes each, those of the first key first; 10000 at most
RETURNS
  str     one character for each key: 1 when it is new, 0 when it was there, or seems so
]]

local bits = KEYS[1]
local hashes, offsets = tonumber(ARGV[1]), ARGV[2]

local answers = {}
for first = 1, #offsets, 4 * hashes do
    local answer = "0"
    for place = first, first + 4 * (hashes - 1), 4 do
        if redis.call("SETBIT", bits, struct.unpack(">I4", offsets, place), 1) == 0 then
            answer = "1"
        end
    end
    answers[#answers + 1] = answer
end
return table.concat(answers)
