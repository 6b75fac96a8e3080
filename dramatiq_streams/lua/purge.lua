--[[
Drop everything of a queue: waiting, delivered, delayed and dead.

The streams stay, so that entry ids never come again and a late ack cannot hit another message.
A paused queue stays paused.

KEYS
  delayed           zset    delivery id -> eta
  delayed_messages  hash    delivery id -> lane and message
  dead              stream  dead letters
  dead_expiries     zset    dead letter -> when it is dropped
  cancelled         zset    marks of what is to be dropped
  unique            zset    unique key -> when its reservation ends
  unique_messages   hash    unique key -> token and message id of who has it
  wake              stream  wakes a blocked consumer
  lanes...          stream  highest first
ARGV
  group  str  the consumer group
RETURNS
  array  how many messages were dropped, dead letters not counted; how many dead letters
]]

local delayed, delayed_messages, dead, dead_expiries = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local cancelled, unique, unique_messages, streams = KEYS[5], KEYS[6], KEYS[7], { unpack(KEYS, 8) }
local group = ARGV[1]

local dropped, letters = redis.call("ZCARD", delayed), redis.call("XLEN", dead)
redis.call("DEL", delayed, delayed_messages, dead, dead_expiries)
redis.call("DEL", cancelled, unique, unique_messages)
for index, stream in ipairs(streams) do
    if redis.call("EXISTS", stream) == 1 then
        dropped = dropped + (index > 1 and redis.call("XLEN", stream) or 0)
        redis.call("XTRIM", stream, "MAXLEN", 0)
        local existed = redis.call("XGROUP", "DESTROY", stream, group) == 1
        -- The first is `wake`, which has no group while the queue is paused.
        if existed or index > 1 then
            redis.call("XGROUP", "CREATE", stream, group, "0")
        end
    end
end
return { dropped, letters }
