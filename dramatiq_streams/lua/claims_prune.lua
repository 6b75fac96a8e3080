--[[
Remove what has expired from some of a set's claims; called on until it is through with all.

KEYS
  claims  hash  digest -> owner and expiry
ARGV
  place  str  where to go on: 0 at first, then what the last call returned
  limit  int  how many to look at, about; 1000 at most
RETURNS
  array  where to go on, 0 at the end; how many were removed
]]
--- @include "now"
--- @include "is_over"
--- @include "prune_claims"

local claims = KEYS[1]
local place, limit = ARGV[1], tonumber(ARGV[2])

local next_place, removed = prune_claims(claims, now(), place, limit)
return { next_place, removed }
