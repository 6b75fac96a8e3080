--[[
Forget the pages whose depth in the storage is right now; those that came nearer meanwhile stay.

KEYS
  depths  hash  URL -> clicks from a seed
  nearer  set   finished URLs whose stored depth is too high
ARGV
  stored...  str  URL, the depth it was stored with, URL, depth, ...: 500 pairs at most
RETURNS
  int  how many were forgotten
]]

local depths, nearer = KEYS[1], KEYS[2]
local stored = { unpack(ARGV) }

local settled = 0
for index = 1, #stored, 2 do
    local url, depth = stored[index], stored[index + 1]
    if redis.call("HGET", depths, url) == depth then
        settled = settled + redis.call("SREM", nearer, url)
    end
end
return settled
