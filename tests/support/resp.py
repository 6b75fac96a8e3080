"""Cuts a stream of RESP2 or RESP3 into whole frames, untouched."""

from typing import BinaryIO

_SIZED_TEXT = b"$!="
_AGGREGATES = {b"*": 1, b"~": 1, b">": 1, b"%": 2, b"|": 2}


def read_frame(stream: BinaryIO) -> bytes:
    """The next whole request or reply, or an empty one when the connection has ended.

    An attribute (`|`) comes together with the reply that it describes.
    """
    head = stream.readline()
    if not head.endswith(b"\r\n"):
        return b""
    kind, size = head[:1], head[1:-2]
    if kind in _SIZED_TEXT and size != b"-1":
        return head + stream.read(int(size) + 2)
    parts = [head]
    for _ in range(_children(kind, size)):
        part = read_frame(stream)
        if not part:
            return b""
        parts.append(part)
    return b"".join(parts)


def _children(kind: bytes, size: bytes) -> int:
    if kind not in _AGGREGATES or size == b"-1":
        return 0
    return int(size) * _AGGREGATES[kind] + (kind == b"|")


def arguments(request: bytes) -> list[bytes]:
    """The command and its arguments out of a request's frame."""
    found = []
    position = request.index(b"\r\n") + 2
    while position < len(request):
        end = request.index(b"\r\n", position)
        start, size = end + 2, int(request[position + 1 : end])
        found.append(request[start : start + size])
        position = start + size + 2
    return found
