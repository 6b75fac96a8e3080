--[[
Prolong the records of keys that this process still runs.

KEYS
  running     zset  key -> when the lease of its holder ends, in server milliseconds
  records...  hash  the records, in the order of `held`
ARGV
  lease  int   milliseconds until others may start
  held   json  for each record its key, its token and its ttl in milliseconds
RETURNS
  array  the positions in `held`, from 1, of keys that somebody else has now
]]
--- @include "now"

local running = KEYS[1]
local records, lease, held = { unpack(KEYS, 2) }, tonumber(ARGV[1]), cjson.decode(ARGV[2])

local lost = {}
local lease_end = string.format("%.0f", now() + lease)
for position, record in ipairs(records) do
    local key, token, ttl = held[position][1], held[position][2], held[position][3]
    local found = redis.call("HMGET", record, "state", "token")
    if found[1] == "running" and found[2] == token then
        redis.call("HSET", record, "lease_end_ms", lease_end)
        redis.call("PEXPIRE", record, ttl)
        redis.call("ZADD", running, lease_end, key)
    elseif found[1] then
        -- A record that is gone, with its server's data, is nobody else's.
        lost[#lost + 1] = position
    end
end
return lost
