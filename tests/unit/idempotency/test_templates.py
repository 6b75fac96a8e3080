"""From arguments to keys, and to one hash however the same arguments are given."""

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from hypothesis import given, settings
from hypothesis import strategies as st

from dramatiq_streams.errors import InvalidIdempotency
from dramatiq_streams.middleware.idempotency.templates import LONGEST_KEY, KeyMaker


@pytest.fixture(scope="module")
def broker() -> Iterator[StubBroker]:
    broker = StubBroker(middleware=[])
    yield broker
    broker.close()


async def _later(url: str, depth: int = 0, *, user: Any = None) -> str:
    return url


def _one_by_one(url: str, depth: int = 0, *, user: Any = None) -> Iterator[str]:
    yield url


class Later:
    """Callable, and to be awaited."""

    async def __call__(self, url: str) -> str:
        return url


def adds_session(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Adds an argument, and does not show it."""

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        return fn("session", *args, **kwargs)

    return run


def adds_session_openly(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Adds an argument, and has parameters of its own."""

    @functools.wraps(fn)
    def run(order: int) -> Any:
        return fn("session", order)

    return run


def passes_on(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Adds nothing."""

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return run


def maker_of(broker: StubBroker, fn: Callable[..., Any], option: object) -> KeyMaker:
    broker.actors.clear()
    return KeyMaker.of(dramatiq.actor(broker=broker, actor_name="fetch")(fn), option)


def fetch(url: str, depth: int = 0, *, user: Any = None) -> None:
    """An actor."""


def collect(*parts: Any, **named: Any) -> None:
    """An actor that takes everything."""


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("page:{url}", "fetch:page:u"),
        ("{url}/{depth:03d}", "fetch:u/002"),
        ("{user[id]}", "fetch:7"),
        ("{depth!r}:{url}", "fetch:2:u"),
        (lambda url, depth, user: f"{url}-{depth}", "fetch:u-2"),
    ],
)
def test_key_is_made_of_the_arguments(broker: StubBroker, option: object, key: str) -> None:
    maker = maker_of(broker, fetch, option)

    assert maker.key(("u", 2), {"user": {"id": 7}}) == key


def test_template_sees_defaults(broker: StubBroker) -> None:
    assert maker_of(broker, fetch, "{url}:{depth}").key(("u",), {}) == "fetch:u:0"


def test_true_is_the_hash_of_all_arguments(broker: StubBroker) -> None:
    maker = maker_of(broker, fetch, True)

    assert maker.key(("u", 2), {}) == maker.key((), {"depth": 2, "url": "u"})
    assert maker.key(("u",), {}) == maker.key(("u", 0), {"user": None})
    assert maker.key(("u", 2), {}) != maker.key(("u", 3), {})


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("page:{link}", "no 'link'"),
        ("page:{}", "no ''"),
        ("page:{0}", "no '0'"),
        ("page:{url", "expected '}'"),
        ("{url:{link}}", "no 'link'"),
        ("{url:{depth:{link}}}", "'{link}' is nested too deeply"),
        ("{url:{depth:{depth}}}", "nested too deeply"),
        ("{url:{}}", "no ''"),
        ("{url!z}", "'!z' is no conversion"),
        ("{url.}", "Empty attribute"),
        ("{url[]}", "Empty attribute"),
        ("{url[a]b}", "may follow ']'"),
        (lambda: "x", "callable with the actor's arguments (url, depth, user)"),
        (lambda a, b, c, d: "x", "callable with the actor's arguments"),
        (_later, "nobody awaits"),
        (_one_by_one, "nobody awaits"),
        ("page:url", "names an argument"),
        ("", "names an argument"),
        (3, "True for all arguments"),
        (["url"], "True for all arguments"),
    ],
)
def test_key_that_is_not_possible_is_refused_and_the_actor_named(
    broker: StubBroker, option: object, text: str
) -> None:
    with pytest.raises(InvalidIdempotency, match="'fetch'") as raised:
        maker_of(broker, fetch, option)

    assert text in str(raised.value)


def test_key_that_would_have_to_be_awaited_is_refused_of_an_object_too(broker: StubBroker) -> None:
    with pytest.raises(InvalidIdempotency, match="nobody awaits"):
        maker_of(broker, fetch, Later())


@pytest.mark.parametrize(
    "option",
    [
        "{url:>{depth}}",
        "{url!a:{depth}>{depth}}",
        "{url.a.b[0][x]}{{}}",
        lambda url, depth, user: "k",
        lambda url: "k",
        lambda *_, **__: "k",
        functools.partial(lambda prefix, url: prefix + url, "k"),
        str,
    ],
)
def test_key_that_some_arguments_may_have_is_allowed(broker: StubBroker, option: object) -> None:
    maker_of(broker, fetch, option)


def test_key_of_an_actor_that_takes_anything_has_to_take_what_that_needs(
    broker: StubBroker,
) -> None:
    def gather(url: str, *parts: str, **named: str) -> None:
        """An actor."""

    for option in (lambda url: url, lambda url, part: part, lambda **named: "k"):
        maker_of(broker, gather, option)
        maker_of(broker, collect, option)
    with pytest.raises(InvalidIdempotency, match="callable with the actor's arguments"):
        maker_of(broker, gather, lambda: "x")


def ship(session: str, order: int) -> None:
    """What decorators give a session."""


@pytest.mark.parametrize("option", ["order:{order}", True, lambda session, order: f"order:{order}"])
def test_argument_that_a_decorator_adds_unseen_leaves_no_message_without_a_key(
    broker: StubBroker, option: object
) -> None:
    maker = maker_of(broker, adds_session(ship), option)

    for make in (maker.key, maker.arguments_hash):
        with pytest.raises(InvalidIdempotency, match=r"'order'\. If a decorator adds"):
            make((7,), {})


def test_decorator_with_parameters_of_its_own_decides(broker: StubBroker) -> None:
    maker = maker_of(broker, passes_on(adds_session_openly(ship)), "order:{order}")

    assert maker.key((7,), {}) == "fetch:order:7"
    with pytest.raises(InvalidIdempotency, match=r"arguments \(order\); it has no 'session'"):
        maker_of(broker, adds_session_openly(ship), "{session}")


def test_decorators_that_pass_everything_on_are_looked_through(broker: StubBroker) -> None:
    async def later(order: int) -> None:
        """An actor that dramatiq itself wraps."""

    for fn in (passes_on(functools.cache(lambda order: None)), later):
        assert maker_of(broker, fn, "{order}").key((7,), {}) == "fetch:7"


def test_decorator_of_perform_keeps_the_actor_out_of_the_arguments() -> None:
    dramatiq.set_broker(StubBroker(middleware=[]))

    class Fetch(dramatiq.GenericActor):
        class Meta:
            broker = StubBroker(middleware=[])

        @passes_on
        def perform(self, url: str) -> None:
            """Do nothing."""

    actor: Any = Fetch
    maker = KeyMaker.of(actor, "{url}")

    assert maker.key(("u",), {}) == "Fetch:u"


def test_actor_without_arguments_may_have_a_constant_key(broker: StubBroker) -> None:
    assert maker_of(broker, lambda: None, "nightly").key((), {}) == "fetch:nightly"


@pytest.mark.parametrize(
    "option", [lambda **_: "", lambda **_: None, lambda **_: 1 / 0, "{user[id]}", "{user.name}"]
)
def test_key_that_cannot_be_made_names_the_actor(broker: StubBroker, option: object) -> None:
    maker = maker_of(broker, fetch, option)

    with pytest.raises(InvalidIdempotency, match="'fetch'"):
        maker.key((), {"url": "u"})


def test_arguments_that_the_actor_cannot_be_called_with_have_no_key(broker: StubBroker) -> None:
    maker = maker_of(broker, fetch, lambda url: url)

    for make in (maker.key, maker.arguments_hash):
        with pytest.raises(InvalidIdempotency, match=r"cannot be called .*: missing .* 'url'"):
            make((), {"link": "u"})


def test_argument_without_a_form_in_json_is_refused(broker: StubBroker) -> None:
    with pytest.raises(InvalidIdempotency, match="no canonical form"):
        maker_of(broker, fetch, True).key((object(),), {})


def test_generic_actors_have_the_arguments_of_perform() -> None:
    broker = StubBroker(middleware=[])
    dramatiq.set_broker(broker)

    class Fetch(dramatiq.GenericActor):
        class Meta:
            broker = StubBroker(middleware=[])

        def perform(self, url: str) -> None:
            """Do nothing."""

    actor: Any = Fetch
    maker = KeyMaker.of(actor, "{url}")

    assert maker.key(("u",), {}) == "Fetch:u"


def test_long_keys_are_cut_and_stay_different(broker: StubBroker) -> None:
    maker = maker_of(broker, fetch, "{url}")

    keys = {maker.key(("u" * 10_000 + end,), {}) for end in "ab"}

    assert len(keys) == 2
    assert max(map(len, keys)) <= LONGEST_KEY


def test_text_that_is_no_unicode_makes_a_key(broker: StubBroker) -> None:
    maker = maker_of(broker, fetch, "{url}")
    key = maker.key(("\ud800",), {})

    assert re.fullmatch(r"fetch:\\ud800#[0-9a-f]{32}", key)
    keys = {key, maker.key(("\ud801",), {}), maker.key(("\\ud800",), {})}
    assert len(keys) == 3


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@settings(max_examples=25)
@given(url=json_values, depth=json_values, user=json_values, by_name=st.integers(0, 2))
def test_hash_does_not_depend_on_how_arguments_are_given(
    broker: StubBroker, url: Any, depth: Any, user: Any, by_name: int
) -> None:
    maker = maker_of(broker, fetch, True)
    args, named = [url, depth], {"user": user}
    for name in ("depth", "url")[:by_name]:
        named[name] = args.pop()

    expected = maker.arguments_hash((), {"user": user, "depth": depth, "url": url})

    assert maker.arguments_hash(args, named) == expected
    assert maker.arguments_hash(args, dict(reversed(named.items()))) == expected


@settings(max_examples=25)
@given(
    args=st.lists(json_values, max_size=3), named=st.dictionaries(st.text(max_size=3), json_values)
)
def test_hash_is_the_same_before_and_after_the_journey(
    broker: StubBroker, args: list[Any], named: dict[str, Any]
) -> None:
    maker = maker_of(broker, collect, True)

    travelled_args, travelled = json.loads(json.dumps([tuple(args), named]))

    assert maker.arguments_hash(travelled_args, travelled) == maker.arguments_hash(args, named)


@settings(max_examples=25)
@given(one=json_values, other=json_values)
def test_hash_tells_different_arguments_apart(broker: StubBroker, one: Any, other: Any) -> None:
    maker = maker_of(broker, fetch, True)
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

    hashes = {maker.arguments_hash((value,), {}) for value in (one, other)}

    assert (len(hashes) == 1) is same


def test_actors_have_no_key_in_common_whatever_they_are_called() -> None:
    keys = {
        KeyMaker(actor_name, True, inspect.Signature()).scoped(key)
        for actor_name, key in [("a", "b:c"), ("a:b", "c"), ("a%3Ab", "c")]
    }

    assert len(keys) == 3
    assert "a:b:c" in keys
