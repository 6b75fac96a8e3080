"""From an actor's arguments to the key of its message, and to the hash of the arguments (pure).

A key is checked when its actor is declared. Messages of one actor compete with each other only:
the actor's name is part of each key.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dramatiq.actor import Actor

from ...errors import InvalidIdempotency

#: What `idempotency_key` may be.
KeyOption = str | bool | Callable[..., object]

_ALLOWED = "True for all arguments, a template such as 'page:{url}', or a callable of the arguments"

#: Longer keys are cut there, and end in their hash.
LONGEST_KEY = 400
_KEPT = 200


@dataclass(frozen=True, slots=True)
class KeyMaker:
    """Makes the keys of one actor's messages."""

    actor_name: str
    option: KeyOption
    signature: inspect.Signature

    @classmethod
    def of(cls, actor: Actor[Any, Any], option: object) -> KeyMaker:
        """The maker for *option*, the actor's `idempotency_key`.

        Raises:
            InvalidIdempotency: *option* is no key, or names an argument that *actor* does not have.
        """
        signature = _signature(actor)
        if isinstance(option, str):
            _check_template(option, actor.actor_name, signature)
        elif option is not True and not callable(option):
            raise _wrong(actor.actor_name, option, _ALLOWED)
        return cls(actor.actor_name, option, signature)

    def key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The key of a message with these arguments.

        Raises:
            TypeError: The actor cannot be called with them.
            InvalidIdempotency: The callable or the template fails for them.
        """
        if self.option is True:
            return self.scoped(self.arguments_hash(args, kwargs))
        try:
            if isinstance(self.option, str):
                made: object = self.option.format_map(self._bound(args, kwargs))
            elif callable(self.option):
                made = self.option(*args, **kwargs)
        except Exception as error:
            if isinstance(error, TypeError):
                self._bound(args, kwargs)  # then the actor itself would fail just so
            raise InvalidIdempotency(
                f"The idempotency_key of actor {self.actor_name!r} fails for these arguments:"
                f" {type(error).__name__}: {error}"
            ) from error
        if not isinstance(made, str) or not made:
            raise _wrong(self.actor_name, made, "a text that is not empty")
        return self.scoped(made)

    def scoped(self, key: str) -> str:
        """*key* with the actor's name before it, cut when it is long.

        Half a character, which UTF-8 does not have, is written out, and told from the same text.
        """
        # The first colon ends the actor's name: no two of them have a key in common.
        actor_name = self.actor_name.replace("%", "%25").replace(":", "%3A")
        scoped = f"{actor_name}:{key}"
        writable = scoped.encode(errors="backslashreplace").decode()
        if len(scoped) <= LONGEST_KEY and writable == scoped:
            return scoped
        return f"{writable[:_KEPT]}#{_digest(scoped)}"

    def arguments_hash(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The same text however the same arguments are given: by position, by name, by default.

        Raises:
            TypeError: The actor cannot be called with them.
            InvalidIdempotency: One of them is of a type that JSON does not have.
        """
        try:
            return _digest(canonical(self._bound(args, kwargs)))
        except _NotCanonical as error:
            raise InvalidIdempotency(
                f"The arguments of actor {self.actor_name!r} have no canonical form: {error}"
            ) from error

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)


def canonical(value: object) -> str:
    """*value* as JSON has it after a journey through a queue: tuples are lists, names are sorted.

    Raises:
        _NotCanonical: It holds something that JSON does not have.
    """
    try:
        travelled = json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise _NotCanonical(str(error)) from error
    return json.dumps(travelled, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


class _NotCanonical(Exception):
    """A value has no canonical form."""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def _signature(actor: Actor[Any, Any]) -> inspect.Signature:
    # A GenericActor is an object whose call passes everything on to `perform`.
    perform = getattr(actor.fn, "perform", None)
    return inspect.signature(actor.fn if perform is None else perform)


def _check_template(template: str, actor_name: str, signature: inspect.Signature) -> None:
    try:
        fields = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise _wrong(actor_name, template, f"a template ({error})") from error
    names = {_first_word(field) for field in fields}
    unknown = sorted(names - signature.parameters.keys())
    if unknown:
        arguments = ", ".join(signature.parameters) or "none"
        raise _wrong(
            actor_name,
            template,
            f"a template over the actor's arguments ({arguments}); it has no {unknown[0]!r}",
        )
    if not template or (not names and signature.parameters):
        raise _wrong(actor_name, template, "a template that names an argument, as in 'page:{url}'")


def _first_word(field: str) -> str:
    """The argument that a field such as `user[id]` or `user.id` begins with."""
    return field.partition("[")[0].partition(".")[0]


def _wrong(actor_name: str, value: object, allowed: str) -> InvalidIdempotency:
    return InvalidIdempotency(
        f"idempotency_key={value!r} of actor {actor_name!r} is not possible: it must be {allowed}."
    )
