-- What a record says to a message with these arguments; nil when nothing keeps it from running.
local function verdict(record, arguments, time)
    local found = redis.call("HMGET", record,
        "state", "arguments", "lease_end_ms", "message_id", "result")
    local state, known, lease_end_ms = found[1], found[2], tonumber(found[3] or "0")
    if known and known ~= arguments then
        return { "conflict", found[4] or "" }
    end
    if state == "done" then
        return { "done", found[4] or "", found[5] or "" }
    end
    if state == "running" and lease_end_ms > time then
        return { "busy", lease_end_ms - time, found[4] or "" }
    end
    return nil
end
