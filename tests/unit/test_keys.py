import re

import pytest

from dramatiq_streams import keys
from dramatiq_streams.keys import QueueKeys, queue_keys


def test_every_key_of_a_queue_by_name() -> None:
    found = queue_keys("ns", "mail", ("high", "low"))

    assert found == QueueKeys(
        lanes=("{ns:mail:0}:lane:high", "{ns:mail:0}:lane:low"),
        delayed="{ns:mail:0}:delayed",
        delayed_messages="{ns:mail:0}:delayed:messages",
        dead="{ns:mail:0}:dead",
        dead_expiries="{ns:mail:0}:dead:expiries",
        consumers="{ns:mail:0}:consumers",
        connections="{ns:mail:0}:connections",
        wake="{ns:mail:0}:wake",
        paused="{ns:mail:0}:paused",
        cancelled="{ns:mail:0}:cancelled",
        counts="{ns:mail:0}:counts",
        unique="{ns:mail:0}:unique",
        unique_messages="{ns:mail:0}:unique:messages",
        spools="{ns:mail:0}:spools",
        tag="{ns:mail:0}",
    )


def test_all_keys_of_a_shard_lie_in_one_slot() -> None:
    found = queue_keys("ns", "mail", ("high", "low"), shard=3)

    everything = [*found.lanes, *_single_keys(found)]
    assert {key[: key.index("}") + 1] for key in everything} == {"{ns:mail:3}"}
    assert len(set(everything)) == 2 + len(_single_keys(found))


def test_no_lane_can_be_taken_for_another_key() -> None:
    names = ("delayed", "dead", "wake", "consumers", "delayed:messages")

    found = queue_keys("ns", "mail", names)

    assert not set(found.lanes) & set(_single_keys(found))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("ns", "a", 0), ("ns", "b", 0)),
        (("ns", "a", 0), ("other", "a", 0)),
        (("ns", "a", 0), ("ns", "a", 1)),
        (("ns", "a:0", 0), ("ns", "a", 0)),
    ],
)
def test_queues_namespaces_and_shards_share_no_key(
    first: tuple[str, str, int], second: tuple[str, str, int]
) -> None:
    one = queue_keys(first[0], first[1], ("high",), shard=first[2])
    other = queue_keys(second[0], second[1], ("high",), shard=second[2])

    assert not {*one.lanes, *_single_keys(one)} & {*other.lanes, *_single_keys(other)}


def test_table_in_the_docstring_names_every_key() -> None:
    documented = set(
        re.findall(r"^\| `T:([a-z:]+)(?:<lane>)?` \|", keys.__doc__ or "", re.MULTILINE)
    )

    found = queue_keys("ns", "mail", ("x",))
    actual = {
        key.removeprefix("{ns:mail:0}:").removesuffix("x")
        for key in (*found.lanes, *_single_keys(found))
    }
    assert documented == actual


def _single_keys(found: QueueKeys) -> list[str]:
    fields = [name for name in QueueKeys.__dataclass_fields__ if name not in ("lanes", "tag")]
    return [getattr(found, name) for name in fields]


def test_list_of_queues_lies_beside_all_queues() -> None:
    found = queue_keys("ns", "queues", ("high",))

    assert keys.registry_key("ns") == "{ns:queues}"
    assert keys.registry_key("ns") not in {*found.lanes, *_single_keys(found)}
