"""Which arguments a function takes, whatever it is decorated with (pure)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def signature_of(fn: Callable[..., Any]) -> inspect.Signature:
    """The parameters of an actor's function: of the outermost decorator that has any of its own.

    One that passes on all that it gets, as `*args` and `**kwargs`, says nothing about what it adds:
    such a one is taken to pass on just that.
    """
    call = _call_of(fn)
    while True:
        inner = _wrapped_by(call)
        try:
            found = inspect.signature(call, follow_wrapped=inner is None)
        except ValueError:  # It is written in C, as what functools.cache makes.
            if inner is None:
                raise
        else:
            if inner is None or not _takes_anything(found):
                return found
        call = inner


def could_take(key_of: Callable[..., object], fn: Callable[..., Any]) -> bool:
    """Whether *key_of* can be called as an actor's function can, in any way at all."""
    try:
        wanted = inspect.signature(key_of)
        parameters = inspect.signature(_call_of(fn), follow_wrapped=False).parameters.values()
    except ValueError:  # It is written in C, and nobody knows.
        return True
    named = [each for each in parameters if each.kind not in _VARIABLE]
    # Of *args and **kwargs nobody knows what they add.
    bind = wanted.bind if len(named) == len(parameters) else wanted.bind_partial
    required = [each for each in named if each.default is inspect.Parameter.empty]
    return any(
        _binds(bind, given, by_name=by_name)
        for given in (named, required)
        for by_name in (False, True)
    )


def returns_later(key_of: Callable[..., object]) -> bool:
    """Whether what *key_of* returns has to be awaited, or iterated over."""
    call = key_of if inspect.isroutine(key_of) else getattr(key_of, "__call__", key_of)  # noqa: B004
    return any(
        is_so(each)
        for each in (key_of, call)
        for is_so in (
            inspect.iscoroutinefunction,
            inspect.isgeneratorfunction,
            inspect.isasyncgenfunction,
        )
    )


def _call_of(fn: Callable[..., Any]) -> Any:
    # A GenericActor is an object whose call passes everything on to `perform`.
    return getattr(fn, "perform", fn)


def _wrapped_by(call: Callable[..., Any]) -> Any:
    wrapped = getattr(call, "__wrapped__", None)
    if wrapped is not None and isinstance(call, MethodType):
        return MethodType(wrapped, call.__self__)
    return wrapped


def _takes_anything(signature: inspect.Signature) -> bool:
    kinds = [each.kind for each in signature.parameters.values()]
    return bool(kinds) and all(kind in _VARIABLE for kind in kinds)


def _binds(
    bind: Callable[..., object], parameters: Sequence[inspect.Parameter], *, by_name: bool
) -> bool:
    args: list[str] = []
    kwargs: dict[str, str] = {}
    for parameter in parameters:
        is_positional = parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        is_named = parameter.kind is inspect.Parameter.KEYWORD_ONLY or by_name
        if is_positional or not is_named:
            args.append(parameter.name)
        else:
            kwargs[parameter.name] = parameter.name
    try:
        bind(*args, **kwargs)
    except TypeError:
        return False
    return True
