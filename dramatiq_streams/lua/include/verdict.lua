-- What a record says to a message with these arguments; nil when nothing keeps it from running.
local function verdict(record, arguments, time)
    local found = redis.call("HMGET", record,
        "state", "arguments", "lease_end_ms", "message_id", "result")
    local state, known, lease_end_ms = found[1], found[2], tonumber(found[3] or "0")
    local message = found[4] or ""
    if known and known ~= arguments then
        return { "conflict", message }
    end
    if state == "done" then
        return { "done", message, found[5] or "" }
    end
    if state == "running" and lease_end_ms > time then
        return { "busy", lease_end_ms - time, message }
    end
    return nil
end
