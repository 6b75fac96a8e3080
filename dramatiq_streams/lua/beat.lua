--[[
Note that a consumer is alive, and return those that may not be.

KEYS
  consumers    zset  consumer -> last heartbeat
  connections  hash  consumer -> ids of its connections, and how it does
  host         hash  consumer -> identity of its process, of this host only
ARGV
  consumer   str  who is alive
  ids        str  the ids of its connections, and how it does, with spaces between
  identity   str  its process; "" where others cannot check it
  host_ttl   int  milliseconds that `host` is kept without a heartbeat
  late       int  milliseconds after which a heartbeat is late
  limit      int  the most late consumers to return, the latest first, and as many of the future
RETURNS
  array  server time, number of neighbours n; n times: consumer, identity;
         then for each late consumer: its name, its last heartbeat, ids of its connections
]]
--- @include "now"
--- @include "heartbeat"
--- @include "overdue"
--- @include "extend_reply"

local consumers, connections, host = KEYS[1], KEYS[2], KEYS[3]
local consumer, ids, identity, host_ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local late, limit = tonumber(ARGV[5]), ARGV[6]

local me = { consumer = consumer, ids = ids, identity = identity, host_ttl = host_ttl }
local time, neighbours = heartbeat(consumers, connections, host, me, now)
local reply = extend_reply({ time, #neighbours / 2 }, neighbours)
return extend_reply(reply, overdue(consumers, connections, time, late, limit))
