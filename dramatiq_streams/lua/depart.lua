--[[
Take messages from where dramatiq's RedisBroker keeps them, and put them in transit.

Nothing that a worker or another migration has taken meanwhile is taken; nor, where a worker is
named, anything of a worker that gave a sign of life after the deadline. A message without a body,
which RedisBroker would pass over, is dropped.

KEYS
  place       list    where the ids are; or a zset, a set, or the hash of bodies itself
  bodies      hash    id -> body
  transit     stream  what is on its way
  heartbeats  zset    worker -> its last sign of life
ARGV
  kind      str    what `place` is: list, zset, set or hash
  worker    str    whose messages these are; "" for nobody's
  deadline  int    milliseconds since 1970
  target    str    the namespace where they go
  source    str    this run of the migration
  row       int    the place of the first of them in this run
  messages...  bytes  of each seven: id, state, lane, eta, reason, error, body as it arrives
RETURNS
  int    how many departed, or -1 when the worker lives
]]

local place, bodies, transit, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local kind, worker, deadline = ARGV[1], ARGV[2], tonumber(ARGV[3])
local target, source, row = ARGV[4], ARGV[5], tonumber(ARGV[6])
local messages = { unpack(ARGV, 7) }

local beat = worker ~= "" and redis.call("ZSCORE", heartbeats, worker)
if beat and tonumber(beat) > deadline then
    return -1
end
local removal = { list = { "LREM", place, 1 }, zset = { "ZREM", place }, set = { "SREM", place } }
local function remove(id)
    local command = { unpack(removal[kind] or { "HEXISTS", place }) }
    table.insert(command, id)
    return redis.call(unpack(command)) > 0
end
local departed = 0
for index = 1, #messages, 7 do
    local id = messages[index]
    if remove(id) and redis.call("HEXISTS", bodies, id) == 1 then
        -- A full server refuses only the first write of a script; a body must not go before this.
        redis.call(
            "XADD", transit, "*", "target", target, "source", source,
            "row", string.format("%.0f", row + (index - 1) / 7), "id", id,
            "state", messages[index + 1], "lane", messages[index + 2],
            "eta", messages[index + 3], "reason", messages[index + 4],
            "error", messages[index + 5], "m", messages[index + 6]
        )
        redis.call("HDEL", bodies, id)
        departed = departed + 1
    end
end
return departed
