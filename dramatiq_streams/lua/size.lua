--[[
Count the messages of a queue that are not done: waiting, delivered and delayed, in one reading.

KEYS
  delayed   zset    delivery id -> eta
  lanes...  stream  highest first
RETURNS
  int       how many
]]

local delayed, lanes = KEYS[1], { unpack(KEYS, 2) }

local count = redis.call("ZCARD", delayed)
for _, lane in ipairs(lanes) do
    count = count + redis.call("XLEN", lane)
end
return count
