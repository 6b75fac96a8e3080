--[[
Create the streams and their consumer group where they are missing.

The group starts at 0, so that a message sent before the first worker is not skipped.
While the queue is paused `wake` gets none, so that no consumer can block, and be served.

KEYS
  paused    string  since when the queue is paused
  wake      stream  wakes a blocked consumer
  lanes...  stream  highest first
ARGV
  group  str  the consumer group
RETURNS
  int    how many groups were created, or -1 when the queue is paused
]]

local paused, streams, group = KEYS[1], { unpack(KEYS, 2) }, ARGV[1]

local created, is_paused = 0, redis.call("EXISTS", paused) == 1
if is_paused then
    table.remove(streams, 1)
end
for _, stream in ipairs(streams) do
    -- Looked for first: a server that is out of memory refuses XGROUP CREATE wherever it is, but
    -- only as the first write of a script, and PERSIST changes nothing. Without a group nobody
    -- could work off what fills its memory.
    if redis.pcall("XPENDING", stream, group, "-", "+", 1).err then
        redis.call("PERSIST", stream)
        local reply = redis.pcall("XGROUP", "CREATE", stream, group, "0", "MKSTREAM")
        if reply.err then
            return reply
        end
        created = created + 1
    end
end
return is_paused and -1 or created
