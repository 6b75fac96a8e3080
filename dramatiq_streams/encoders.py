"""Encoders for `dramatiq.set_encoder`, and their wire format (pure).

A signed message is `ds1.<key id>.<signature>.<payload>`, all ASCII before the payload:

- the key id is 16 hex digits, made from the key itself, so that keys need no names;
- the signature is the HMAC-SHA256 of `ds1.<key id>.<payload>`, in 64 hex digits;
- the payload is what the inner encoder made.

Neither JSON nor a pickle begins with `ds1.`, so that an unsigned message is told from a signed one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import NoReturn

from dramatiq.encoder import Encoder, JSONEncoder, MessageData
from dramatiq.errors import DecodeError

from .errors import InvalidOption

#: RFC 2104: a key shorter than the hash makes the signature weaker.
LEAST_KEY_BYTES = 32

_VERSION = b"ds1"
_SIGNED = re.compile(rb"ds1\.([0-9a-f]{16})\.([0-9a-f]{64})\.(.*)\Z", re.DOTALL)


class SigningEncoder(Encoder):
    """Signs each message, and decodes none that was not signed with one of *keys*.

    Args:
        keys: Secrets of 32 bytes or more, newest first. The first one signs, all of them verify;
            text is taken as UTF-8.
        encoder: Makes and reads the payload. Default: dramatiq's JSONEncoder.
        accept_unsigned: Decode what has no signature too, while old messages are still about.
            Whoever can write to the server can then still forge messages.

    Raises:
        InvalidOption: There is no key, or one is too short or given twice; keys are never named.
    """

    def __init__(
        self,
        keys: Sequence[str | bytes],
        *,
        encoder: Encoder | None = None,
        accept_unsigned: bool = False,
    ) -> None:
        checked = _checked_keys(keys)
        if encoder is not None and not isinstance(encoder, Encoder):
            raise InvalidOption.of("encoder", encoder, "an object of a class of dramatiq's Encoder")
        self._encoder = encoder or JSONEncoder()
        self._accept_unsigned = accept_unsigned
        self._keys = {_key_id(key): key for key in checked}
        self._newest = _key_id(checked[0])

    def encode(self, data: MessageData) -> bytes:
        """Encode *data* and sign it with the newest key."""
        payload = self._encoder.encode(data)
        signature = _signature(self._keys[self._newest], self._newest, payload)
        return b".".join((_VERSION, self._newest, signature, payload))

    def decode(self, data: bytes) -> MessageData:
        """Verify *data* and decode what was signed; nothing is decoded before.

        Raises:
            DecodeError: It has no signature, or none that one of the keys made.
        """
        match = _SIGNED.match(data)
        if match is None:
            if self._accept_unsigned and not data.startswith(_VERSION + b"."):
                return self._encoder.decode(data)
            _refuse("The message is not signed.", data)
        key_id, signature, payload = match.groups()
        key = self._keys.get(key_id)
        if key is None:
            _refuse(f"The message is signed with an unknown key, {key_id.decode()}.", data)
        if not hmac.compare_digest(signature, _signature(key, key_id, payload)):
            _refuse("The signature does not match: the message was changed or forged.", data)
        return self._encoder.decode(payload)


def _checked_keys(keys: object) -> list[bytes]:
    if isinstance(keys, str | bytes) or not isinstance(keys, Sequence) or not keys:
        raise InvalidOption("keys= must be a list of one or more secrets, the newest first.")
    checked = []
    for number, key in enumerate(keys):
        if not isinstance(key, str | bytes):
            raise InvalidOption(f"keys[{number}] must be text or bytes, not {type(key).__name__}.")
        secret = key.encode() if isinstance(key, str) else key
        if len(secret) < LEAST_KEY_BYTES:
            raise InvalidOption(
                f"keys[{number}] has {len(secret)} bytes: a key must have {LEAST_KEY_BYTES} or"
                " more, for example those of secrets.token_hex(32)."
            )
        if secret in checked:
            raise InvalidOption(f"keys[{number}] is given twice.")
        checked.append(secret)
    return checked


def _key_id(key: bytes) -> bytes:
    return hmac.digest(key, b"dramatiq-streams key id", hashlib.sha256).hex()[:16].encode()


def _signature(key: bytes, key_id: bytes, payload: bytes) -> bytes:
    signed = b".".join((_VERSION, key_id, payload))
    return hmac.digest(key, signed, hashlib.sha256).hex().encode()


def _refuse(reason: str, data: bytes) -> NoReturn:
    raise DecodeError(reason, data, None)
