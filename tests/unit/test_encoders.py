"""Signing: what decodes, what does not, and that a key is never shown."""

import hashlib
import hmac
from typing import Any

import pytest
from dramatiq.encoder import JSONEncoder, PickleEncoder
from dramatiq.errors import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from dramatiq_streams import InvalidOption, SigningEncoder

OLD = "an old secret, far too long to be guessed"
NEW = b"\x00a new secret that has other bytes than text\xff"
DATA: dict[str, Any] = {"actor_name": "wörk", "args": [1, None], "options": {}}


class Trap(JSONEncoder):
    """Never to be asked to decode anything."""

    def decode(self, data: bytes) -> Any:
        raise AssertionError(data)


@pytest.mark.parametrize("inner", [None, JSONEncoder(), PickleEncoder()])
def test_signed_data_decodes_to_the_same(inner: Any) -> None:
    encoder = SigningEncoder([NEW], encoder=inner)

    assert encoder.decode(encoder.encode(DATA)) == DATA


def test_wire_format_is_the_documented_one() -> None:
    version, key_id, signature, payload = SigningEncoder([NEW]).encode(DATA).split(b".", 3)

    expected = hmac.new(NEW, b"ds1." + key_id + b"." + payload, hashlib.sha256).hexdigest()
    assert version == b"ds1"
    assert len(key_id) == 16
    assert signature == expected.encode()
    assert payload == JSONEncoder().encode(DATA)


def test_text_and_its_utf_8_bytes_are_one_key() -> None:
    signed = SigningEncoder([OLD]).encode(DATA)

    assert SigningEncoder([OLD.encode()]).decode(signed) == DATA


def test_keys_can_be_rotated_without_losing_messages() -> None:
    before, during, after = SigningEncoder([OLD]), SigningEncoder([NEW, OLD]), SigningEncoder([NEW])

    assert during.decode(before.encode(DATA)) == DATA
    assert after.decode(during.encode(DATA)) == DATA
    with pytest.raises(DecodeError, match="signed with an unknown key"):
        after.decode(before.encode(DATA))


@pytest.mark.parametrize(
    "unsigned", [b"", b"{}", b"\x80\x04.", b"ds1", b"ds1.", b"ds1.0123456789abcdef.00.{}"]
)
def test_unsigned_data_is_refused(unsigned: bytes) -> None:
    with pytest.raises(DecodeError, match="is not signed") as raised:
        SigningEncoder([NEW]).decode(unsigned)

    assert raised.value.data == unsigned


def test_unsigned_data_decodes_while_it_is_accepted() -> None:
    encoder = SigningEncoder([NEW], accept_unsigned=True)

    assert encoder.decode(JSONEncoder().encode(DATA)) == DATA


def test_bad_signatures_are_refused_also_while_unsigned_data_is_accepted() -> None:
    encoder = SigningEncoder([NEW], encoder=Trap(), accept_unsigned=True)
    signed = encoder.encode(DATA)

    for forged in (signed[:-1], signed.replace(b"ds1.", b"ds1.x", 1), b"ds1.{}"):
        with pytest.raises(DecodeError):
            encoder.decode(forged)


@given(position=st.integers(min_value=0), change=st.integers(min_value=1, max_value=255))
def test_no_changed_byte_is_accepted(position: int, change: int) -> None:
    encoder = SigningEncoder([NEW])
    signed = bytearray(encoder.encode(DATA))
    signed[position % len(signed)] ^= change

    with pytest.raises(DecodeError):
        encoder.decode(bytes(signed))


def test_nothing_is_decoded_before_the_signature_has_been_verified() -> None:
    signed = SigningEncoder([OLD]).encode(DATA)
    encoder = SigningEncoder([NEW, OLD], encoder=Trap())

    with pytest.raises(DecodeError, match="changed or forged"):
        encoder.decode(signed + b" ")


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ([], "one or more secrets"),
        (OLD, "one or more secrets"),
        (None, "one or more secrets"),
        ([OLD, 7], r"keys\[1\] must be text or bytes, not int"),
        ([OLD, "s3cret"], r"keys\[1\] has 6 bytes: a key must have 32 or more"),
        ([NEW, OLD, OLD.encode()], r"keys\[2\] is given twice"),
    ],
)
def test_impossible_keys_are_refused_and_not_shown(keys: Any, reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason) as raised:
        SigningEncoder(keys)

    assert "s3cret" not in str(raised.value)
    assert OLD not in str(raised.value)
