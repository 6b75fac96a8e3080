"""How much is tried here: little in each run, more with `FUZZ_FACTOR=100`; and the values tried."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from dramatiq.errors import ConnectionClosed, ConnectionFailed
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from dramatiq_streams.errors import StreamsError

FACTOR = int(os.environ.get("FUZZ_FACTOR", "1"))

#: What a caller may be told: our own errors, dramatiq's of the connection, or Python's own two.
CLEAR = (StreamsError, ValueError, TypeError, ConnectionFailed, ConnectionClosed)


def fuzzed(examples: int, *, are_shrunk: bool = True) -> Callable[[Any], Any]:
    """So many examples in each run, the same ones; a long run has new ones each time."""
    phases = (Phase.generate, Phase.shrink) if are_shrunk else (Phase.generate,)
    return settings(
        max_examples=examples * FACTOR,
        derandomize=FACTOR == 1,
        database=None,
        deadline=None,
        phases=phases,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    """JSON of so many levels."""
    return opening * depth + closing * depth


def picked(values: Sequence[Any]) -> st.SearchStrategy[Any]:
    """One of *values*; unlike `sampled_from` it does not write all of them into its own name."""
    return st.integers(0, len(values) - 1).map(lambda index: values[index])


odd_numbers = st.one_of(
    picked([-1, 0, 10**13 + 1, 10**30, -(10**400), 10**400]),
    picked([math.nan, math.inf, -math.inf, -0.5, 1e300]),
    st.integers(),
    st.floats(),
)
odd_text = st.one_of(
    st.text(max_size=8),
    picked(["", " ", "urgent", "soon", "x", "\ud800", "\0", "a\nb", "{}", "é:", "9" * 5000]),
)
#: Values of JSON, with those that Python adds to it.
json_values = st.recursive(
    st.none() | st.booleans() | odd_numbers | odd_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_text, inner, max_size=3),
    max_leaves=5,
)
#: Anything that a caller might give.
values = st.one_of(
    json_values,
    st.binary(max_size=4),
    picked(
        [
            10**5000,
            decimal.Decimal("NaN"),
            decimal.Decimal(5),
            dt.timedelta(seconds=1),
            object(),
            ValueError,
            (ValueError, KeyError),
            [ValueError],
            len,
            1j,
            {1, 2},
        ]
    ),
)


def dumped(value: Any) -> bytes:
    """*value* as JSON that a stranger might write."""
    return json.dumps(value).encode()
