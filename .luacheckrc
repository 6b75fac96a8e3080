-- The scripts run inside Redis: its sandbox has these globals and no others.
std = "none"
max_line_length = 100
max_cyclomatic_complexity = 10
cache = false
-- A fragment is given what it needs: its parameter has the name of the other fragment on purpose.
ignore = { "431" }

local function library(...)
    local fields = {}
    for _, name in ipairs({ ... }) do
        fields[name] = {}
    end
    return { fields = fields }
end

read_globals = {
    "KEYS",
    "ARGV",
    "assert",
    "error",
    "ipairs",
    "next",
    "pairs",
    "pcall",
    "select",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    redis = library("call", "pcall", "error_reply", "status_reply", "sha1hex", "log",
        "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"),
    cjson = library("encode", "decode", "null", "encode_sparse_array"),
    cmsgpack = library("pack", "unpack"),
    struct = library("pack", "unpack", "size"),
    bit = library("band", "bor", "bxor", "lshift", "rshift", "tohex"),
    math = library("abs", "ceil", "floor", "fmod", "huge", "log", "max", "min", "modf", "pow"),
    string = library("byte", "char", "find", "format", "gmatch", "gsub", "len", "lower", "match",
        "rep", "reverse", "sub", "upper"),
    table = library("concat", "insert", "remove", "sort"),
}
