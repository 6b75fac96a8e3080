"""From an actor's arguments to the key of its message, and to the hash of the arguments (pure).

A key is checked when its actor is declared. Messages of one actor compete with each other only:
the actor's name is part of each key.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dramatiq.actor import Actor

from ...errors import InvalidIdempotency
from .signatures import could_take, returns_later, signature_of
from .template_fields import argument_names

KEY = "idempotency_key"

#: What `idempotency_key` may be.
KeyOption = str | bool | Callable[..., object]

_ALLOWED = "True for all arguments, a template such as 'page:{url}', or a callable of the arguments"

#: Longer keys are cut there, and end in their hash.
LONGEST_KEY = 400
_KEPT = 200

#: What `json.dumps` would make anew each time.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


@dataclass(frozen=True, slots=True)
class KeyMaker:
    """Makes the keys of one actor's messages."""

    actor_name: str
    option: KeyOption
    signature: inspect.Signature
    option_name: str = KEY

    @classmethod
    def of(cls, actor: Actor[Any, Any], option: object, *, option_name: str = KEY) -> KeyMaker:
        """The maker for *option*, which the actor has as its *option_name*.

        Raises:
            InvalidIdempotency: *option* is no key, or names an argument that *actor* does not have.
        """
        maker = cls(actor.actor_name, option, signature_of(actor.fn), option_name)  # type: ignore[arg-type]
        maker._check(actor.fn)
        return maker

    def key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The key of a message with these arguments.

        Raises:
            InvalidIdempotency: The actor cannot be called with them, or the callable or the
                template fails for them.
        """
        if self.option is True:
            return self.scoped(self.arguments_hash(args, kwargs))
        try:
            if isinstance(self.option, str):
                made: object = self.option.format_map(self._bound(args, kwargs))
            elif callable(self.option):
                made = self.option(*args, **kwargs)
        except InvalidIdempotency:
            raise
        except Exception as error:
            if isinstance(error, TypeError):
                self._bound(args, kwargs)  # then the actor itself would fail just so
            raise InvalidIdempotency(
                f"The {self.option_name} of actor {self.actor_name!r} fails for these arguments:"
                f" {type(error).__name__}: {error}"
            ) from error
        if not isinstance(made, str) or not made:
            raise self._wrong(made, "a text that is not empty")
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
            InvalidIdempotency: The actor cannot be called with them, or one of them is of a type
                that JSON does not have.
        """
        try:
            return _digest(canonical(self._bound(args, kwargs)))
        except _NotCanonical as error:
            raise InvalidIdempotency(
                f"The arguments of actor {self.actor_name!r} have no canonical form: {error}"
            ) from error

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidIdempotency(
                f"Actor {self.actor_name!r} cannot be called with these arguments, so they have no"
                f" key: {error}. If a decorator adds or takes away arguments, give the function"
                " that it returns parameters of its own instead of *args and **kwargs."
            ) from error
        bound.apply_defaults()
        return dict(bound.arguments)

    def _check(self, fn: Callable[..., Any]) -> None:
        if isinstance(self.option, str):
            self._check_template(self.option)
        elif self.option is not True and not callable(self.option):
            raise self._wrong(self.option, _ALLOWED)
        elif callable(self.option):
            if returns_later(self.option):
                raise self._wrong(self.option, "a plain function: nobody awaits what it returns")
            if not could_take(self.option, fn):
                allowed = f"callable with the actor's arguments ({self._arguments()})"
                raise self._wrong(self.option, allowed)

    def _check_template(self, template: str) -> None:
        try:
            names = argument_names(template)
        except ValueError as error:
            raise self._wrong(template, f"a template ({error})") from error
        unknown = sorted(names - self.signature.parameters.keys())
        if unknown:
            raise self._wrong(
                template,
                f"a template over the actor's arguments ({self._arguments()});"
                f" it has no {unknown[0]!r}",
            )
        if not template or (not names and self.signature.parameters):
            raise self._wrong(template, "a template that names an argument, as in 'page:{url}'")

    def _arguments(self) -> str:
        return ", ".join(self.signature.parameters) or "none"

    def _wrong(self, value: object, allowed: str) -> InvalidIdempotency:
        return InvalidIdempotency(
            f"{self.option_name}={value!r} of actor {self.actor_name!r} is not possible: it must be"
            f" {allowed}."
        )


def canonical(value: object) -> str:
    """*value* as JSON has it after a journey through a queue: tuples are lists, names are sorted.

    Raises:
        _NotCanonical: It holds something that JSON does not have.
    """
    try:
        travelled = json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise _NotCanonical(str(error)) from error
    return _CANONICAL.encode(travelled)


class _NotCanonical(Exception):
    """A value has no canonical form."""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
