import json
from typing import Any

import pytest
from dramatiq.encoder import Encoder, JSONEncoder, MessageData, PickleEncoder
from dramatiq.errors import DecodeError
from dramatiq.message import Message

from dramatiq_streams.messages import DeliveredMessage, Entry, decode, encode


def new_message(queue_name: str = "mail", **options: Any) -> Message[Any]:
    return Message(
        queue_name=queue_name,
        actor_name="send",
        args=(1, "two"),
        kwargs={"three": [3]},
        options=options,
        message_id="id",
        message_timestamp=1_700_000_000_000,
    )


def new_entry(body: bytes) -> Entry:
    return Entry(lane=1, entry_id="1-0", deliveries=1, body=body)


def body_of(**changes: Any) -> bytes:
    return json.dumps({**new_message().asdict(), **changes}).encode()


def test_message_survives_encoding_and_decoding() -> None:
    message = new_message(retries=3, pipe_target={"a": None})

    delivered = decode(new_entry(encode(message)), "mail")

    assert delivered.message == message
    assert delivered.entry.entry_id == "1-0"


class Shouting(Message[Any]):
    """A message that encodes itself in its own way."""

    def encode(self) -> bytes:
        return super().encode().upper()


class Buffering(JSONEncoder):
    """An encoder that derives from dramatiq's, and makes no bytes."""

    def encode(self, data: MessageData) -> bytes:
        return bytearray(b"#" + super().encode(data))  # type: ignore[return-value]


@pytest.mark.parametrize("option", [3, "é\ud800", float("inf"), {"1": [None, True]}, ()])
def test_plain_message_is_encoded_as_dramatiq_does(option: Any) -> None:
    message = new_message(option=option)

    assert encode(message) == message.encode()


def test_message_that_encodes_itself_may() -> None:
    message = Shouting(**new_message().asdict())

    assert encode(message) == message.encode()
    assert b'"SEND"' in encode(message)


@pytest.mark.parametrize("encoder", [Buffering(), PickleEncoder()])
def test_message_is_encoded_with_the_encoder_that_was_set(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dramatiq.message.global_encoder", encoder)
    message = new_message()

    assert encode(message) == encoder.encode(message.asdict())
    assert type(encode(message)) is bytes


@pytest.mark.parametrize("queue_name", ["mail", "mail.DQ", "mail.XQ"])
def test_message_is_stored_on_its_canonical_queue_and_without_eta(queue_name: str) -> None:
    message = new_message(queue_name, eta=5, retries=1)

    stored = Message.decode(encode(message))

    assert (stored.queue_name, stored.options) == ("mail", {"retries": 1})
    assert stored.message_id == message.message_id
    assert stored.message_timestamp == message.message_timestamp


def test_encoding_leaves_the_message_as_it_is() -> None:
    message = new_message("mail.DQ", eta=5)

    encode(message)

    assert (message.queue_name, message.options) == ("mail.DQ", {"eta": 5})


@pytest.mark.parametrize("eta", [5, None, "soon"])
def test_delivered_message_has_no_eta_and_the_consumers_queue(eta: Any) -> None:
    entry = new_entry(body_of(queue_name="elsewhere", options={"eta": eta, "x": 1}))

    delivered = decode(entry, "mail")

    assert (delivered.queue_name, delivered.options) == ("mail", {"x": 1})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"no json",
        b"null",
        b"[]",
        b"5",
        b"{}",
        b'{"args": []}',
        body_of(args=None),
        body_of(unknown="field"),
    ],
)
def test_body_that_is_no_message_does_not_decode(body: bytes) -> None:
    with pytest.raises(DecodeError) as raised:
        decode(new_entry(body), "mail")

    assert raised.value.data == body


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("queue_name", None),
        ("queue_name", 5),
        ("actor_name", ["send"]),
        ("kwargs", []),
        ("kwargs", None),
        ("options", None),
        ("options", "x"),
        ("message_id", 5),
        ("message_timestamp", "now"),
        ("message_timestamp", None),
    ],
)
def test_field_of_the_wrong_type_does_not_decode_and_is_named(field: str, value: Any) -> None:
    body = body_of(**{field: value})

    with pytest.raises(DecodeError, match=f"wrong type of {field}") as raised:
        decode(new_entry(body), "mail")

    assert raised.value.data == body
    assert isinstance(raised.value.error, TypeError)


def test_message_of_two_wrong_fields_names_both() -> None:
    with pytest.raises(DecodeError, match="kwargs, options"):
        decode(new_entry(body_of(kwargs=None, options=None)), "mail")


@pytest.mark.parametrize(
    ("delivered_with", "now", "is_retry"),
    [
        ({}, {}, False),
        ({}, {"retries": 0}, False),
        ({}, {"retries": 1}, True),
        ({"retries": 1}, {"retries": 1}, False),
        ({"retries": 1}, {"retries": 2}, True),
    ],
)
def test_raised_retries_make_enqueueing_a_retry(
    delivered_with: dict[str, Any], now: dict[str, Any], is_retry: bool
) -> None:
    delivered = DeliveredMessage(new_message(**delivered_with), new_entry(b""))

    delivered.options.update(now)

    assert delivered.is_being_retried == is_retry


def test_settled_message_is_not_retried_again() -> None:
    delivered = DeliveredMessage(new_message(), new_entry(b""))
    delivered.options["retries"] = 1

    delivered.entry.is_settled = True

    assert not delivered.is_being_retried


def test_same_entry_delivered_twice_is_two_deliveries() -> None:
    first, second = new_entry(b"x"), new_entry(b"x")

    assert first != second
    assert len({first, second}) == 2


def test_body_is_not_shown_where_entries_are_logged() -> None:
    assert "secret" not in repr(new_entry(b"secret"))
