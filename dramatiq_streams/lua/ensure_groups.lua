--[[
Create the streams and their consumer group where they are missing.

The group starts at 0, so that a message sent before the first worker is not skipped.

KEYS
  wake      stream  wakes a blocked consumer
  lanes...  stream  highest first
ARGV
  group  str  the consumer group
RETURNS
  int    how many groups were created
]]

local streams, group = KEYS, ARGV[1]

local created = 0
for _, stream in ipairs(streams) do
    -- Looked for first: a server that is out of memory refuses XGROUP CREATE wherever it is.
    if redis.pcall("XPENDING", stream, group, "-", "+", 1).err then
        local reply = redis.pcall("XGROUP", "CREATE", stream, group, "0", "MKSTREAM")
        if reply.err then
            return reply
        end
        created = created + 1
    end
end
return created
