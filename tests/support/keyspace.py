"""The whole keyspace under a prefix as one comparable value, for before and after a script."""

from collections.abc import Callable, Mapping
from typing import Any

import redis

# Longer than any stream, hash or list a test seeds; a snapshot never cuts anything off silently.
_PENDING_LIMIT = 100_000


def snapshot(client: redis.Redis, prefix: str) -> dict[str, Any]:
    """Every key that begins with *prefix* -> its type and everything in it, as plain values.

    A stream is shown as `{"type": "stream", "entries": [[id, {field: value}], ...], "groups":
    {name: {"last": id, "consumers": [name, ...], "pending": {id: [consumer, deliveries]}}}}`. Idle
    times are left out, and a time to live is shown only as being there (`"expires": True`),
    because both differ from run to run. Text that is not UTF-8 is escaped with backslashes.
    """
    pattern = "".join(f"\\{sign}" if sign in "*?[]\\^" else sign for sign in prefix) + "*"
    keys = sorted(set(client.scan_iter(match=pattern, count=1000)))
    return {_text(key): _value(client, key) for key in keys}


def _value(client: Any, key: bytes) -> dict[str, Any]:
    kind = _text(client.type(key))
    shown: dict[str, Any] = {"type": kind, **_READERS[kind](client, key)}
    if client.pttl(key) >= 0:
        shown["expires"] = True
    return shown


def _stream(client: Any, key: bytes) -> dict[str, Any]:
    entries = [[_text(entry), _texts(fields)] for entry, fields in client.xrange(key)]
    groups = {
        _text(group["name"]): {
            "last": _text(group["last-delivered-id"]),
            "consumers": sorted(
                _text(consumer["name"]) for consumer in client.xinfo_consumers(key, group["name"])
            ),
            "pending": _pending(client, key, group["name"]),
        }
        for group in client.xinfo_groups(key)
    }
    return {"entries": entries, "groups": groups}


def _pending(client: Any, key: bytes, group: bytes) -> dict[str, list[Any]]:
    found = client.xpending_range(key, group, min="-", max="+", count=_PENDING_LIMIT)
    return {
        _text(entry["message_id"]): [_text(entry["consumer"]), entry["times_delivered"]]
        for entry in found
    }


_READERS: Mapping[str, Callable[[Any, bytes], dict[str, Any]]] = {
    "stream": _stream,
    "string": lambda client, key: {"value": _text(client.get(key))},
    "hash": lambda client, key: {"value": _texts(client.hgetall(key))},
    "set": lambda client, key: {"value": sorted(_text(member) for member in client.smembers(key))},
    "list": lambda client, key: {"value": [_text(item) for item in client.lrange(key, 0, -1)]},
    "zset": lambda client, key: {
        "value": {
            _text(member): score for member, score in client.zrange(key, 0, -1, withscores=True)
        }
    },
}


def _texts(pairs: Mapping[Any, Any]) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in pairs.items()}


def _text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
