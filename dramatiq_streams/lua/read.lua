--[[
Settle acks, forward what is due, then read the lanes, highest first, within one budget.

Entries that nobody works on any more come before new ones of their lane. `shares` are read ahead,
so that a flood in a higher lane cannot starve a lower one. With a budget of 0 nothing is read,
and of a paused queue neither. What was cancelled is dropped, and counts against the budget.

KEYS
  wake              stream  wakes the next consumer when entries nobody works on may remain
  paused            string  since when the queue is paused
  cancelled         zset    marks of what is to be dropped: lane, colon, entry
  counts            hash    what was counted
  delayed           zset    delivery id -> eta
  delayed_messages  hash    delivery id -> lane and message
  unique            zset    unique key -> when its reservation ends
  unique_messages   hash    unique key -> token and message id of who has it
  lanes...          stream  highest first
ARGV
  group           str   the consumer group
  consumer        str   who reads
  released        str   the consumer that owns what nobody works on
  budget          int   the most entries to deliver
  shares          json  for each lane, how many entries it is owed before higher lanes
  acks            json  list of [lane, entry, deliveries]; lane 0 is `wake`;
                        a 1 behind these when the entry may have a unique key
  lane_names      json  the names of the lanes, in order
  fallback        int   where a delayed message goes whose lane no longer exists
  limit           int   the most delayed messages to forward
  max_deliveries  int   the last delivery of an entry is not counted before it starts
  watch           int   1 to return, if there was nothing to deliver, what to wait from with XREAD
RETURNS
  array  server time, next eta or -1, number of forwarded messages, 1 when paused or 0,
         number of refused acks, their positions,
         number of last ids, the last id of `wake` and of each lane (see `watch`),
         then for each entry: lane, entry, deliveries (negative: the last one), message
]]
--- @include "now"
--- @include "owned"
--- @include "remove"
--- @include "reservation_of"
--- @include "free"
--- @include "freeing"
--- @include "held_by"
--- @include "settle"
--- @include "unpacked"
--- @include "entry_of"
--- @include "forward"
--- @include "body"
--- @include "retake"
--- @include "take_new"
--- @include "wake_one"
--- @include "orders"
--- @include "drop_cancelled"
--- @include "tidy_cancelled"
--- @include "add_entries"
--- @include "add_last_ids"

local wake, paused, cancelled, counts = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local delayed, delayed_messages, unique, unique_messages = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local lanes = { unpack(KEYS, 9) }
local group, consumer, released, budget = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local shares, acks, lane_names = cjson.decode(ARGV[5]), cjson.decode(ARGV[6]), cjson.decode(ARGV[7])
local fallback, limit = tonumber(ARGV[8]), tonumber(ARGV[9])
local max_deliveries, watch = tonumber(ARGV[10]), ARGV[11]

local positions, found = {}, {}
for position, name in ipairs(lane_names) do
    positions[name], found[position] = position, {}
end
local function position_of(name)
    return positions[name] or fallback
end

lanes[0] = wake
local free_key = freeing(unique, unique_messages, now, reservation_of, free)
local refused, was_called = settle(lanes, group, consumer, acks, held_by, owned, remove, free_key)
local time = now()
local forwarded = forward(
    delayed, delayed_messages, lanes, position_of, time, limit, unpacked, entry_of
)

local is_paused, has_marks = orders(paused, cancelled)
budget = budget * (1 - is_paused)
if has_marks then
    tidy_cancelled(cancelled, lanes, positions, time)
end
local function is_dropped(position, entry)
    local name, lane = lane_names[position], lanes[position]
    return has_marks
        and drop_cancelled(cancelled, counts, name, lane, group, entry, remove, free_key)
end

local again, asked = 0, budget
local function fill(position, count)
    local lane = lanes[position]
    local old = retake(lane, group, consumer, released, count, max_deliveries)
    local new = take_new(lane, group, consumer, count - #old)
    for _, entries in ipairs({ old, new }) do
        for _, entry in ipairs(entries) do
            if not is_dropped(position, entry[1]) then
                table.insert(found[position], entry)
            end
        end
    end
    budget, again = budget - #old - #new, again + #old
end
for position, share in ipairs(shares) do
    fill(position, math.min(share, budget))
end
for position in ipairs(lanes) do
    fill(position, budget)
end
if (again > 0 or was_called) and budget == 0 then
    wake_one(wake)
end

local eta = redis.call("ZRANGE", delayed, 0, 0, "WITHSCORES")[2]
local reply = { time, tonumber(eta or -1), forwarded, is_paused, #refused, unpack(refused) }
add_last_ids(reply, watch == "1" and budget == asked, { wake, unpack(lanes) })
add_entries(reply, found, body)
return reply
