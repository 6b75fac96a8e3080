"""Taking Content-Encoding off a body, piece by piece, so that a bomb can be cut (pure).

The libraries below requests inflate a whole chunk at once or finish what is left without a limit;
here no step makes more than `_PIECE_BYTES`, and whoever reads decides when it is enough.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

ACCEPTED_ENCODINGS: Final = "gzip, deflate"
"""What we can read, as the Accept-Encoding header says it."""

_PIECE_BYTES: Final = 64 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS


class BrokenEncoding(Exception):
    """The body is not what its Content-Encoding says, or that is unknown."""


class TruncatedBody(Exception):
    """The compressed body ends too early."""


def decoded(chunks: Iterable[bytes], *, content_encoding: str) -> Iterator[bytes]:
    """The decoded body of *chunks*, in pieces of bounded size.

    Args:
        content_encoding: The header's value; empty when there is none.

    Raises:
        BrokenEncoding: see there.
        TruncatedBody: see there.
    """
    names = [name.strip().lower() for name in content_encoding.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if not names:
        yield from chunks
    elif len(names) == 1 and names[0] in ("gzip", "x-gzip", "deflate"):
        yield from _inflated(chunks, is_gzip=names[0] != "deflate")
    else:
        raise BrokenEncoding(
            f"content encoding {content_encoding!r} is not one of: {ACCEPTED_ENCODINGS}"
        )


def _inflated(chunks: Iterable[bytes], *, is_gzip: bool) -> Iterator[bytes]:
    decompressor = None
    for chunk in chunks:
        data = chunk
        while data:
            if decompressor is None:
                decompressor = zlib.decompressobj(_GZIP if is_gzip else _deflate_bits(data[0]))
            elif decompressor.eof:
                # gzip files may be joined; anything else after the end is junk browsers ignore.
                if not is_gzip or data[0] != 0x1F:
                    return
                decompressor = zlib.decompressobj(_GZIP)
            yield _piece(decompressor, data)
            data = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
    if decompressor is None:
        return
    # What zlib holds back here stems from its last few bits of input: some kilobytes at most.
    yield decompressor.flush()
    if not decompressor.eof:
        raise TruncatedBody("the compressed body ends too early")


def _piece(decompressor: Any, data: bytes) -> bytes:
    try:
        piece: bytes = decompressor.decompress(data, _PIECE_BYTES)
    except zlib.error as error:
        raise BrokenEncoding(f"the body cannot be decompressed: {error}") from error
    return piece


def _deflate_bits(first: int) -> int:
    """Window bits for a `deflate` body: some servers send it without the zlib header."""
    return zlib.MAX_WBITS if first & 0x0F == zlib.DEFLATED else -zlib.MAX_WBITS
