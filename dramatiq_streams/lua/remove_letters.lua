--[[
Drop dead letters for good.

KEYS
  dead           stream  dead letters
  dead_expiries  zset    dead letter -> when it is dropped
ARGV
  letters...  str  which; at most some thousand
RETURNS
  int    how many were still there
]]
--- @include "drop_letters"

local dead, dead_expiries, letters = KEYS[1], KEYS[2], ARGV

return drop_letters(dead, dead_expiries, letters)
