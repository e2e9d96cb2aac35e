"""Whether the fields of a dataclass hold what their annotations say, for data from a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints


@cache
def tests_of(cls: type) -> tuple[tuple[str, Any, Callable[[Any], bool]], ...]:
    """Name, annotation and test of each field, made once: a leaderboard reads thousands of records."""
    return tuple((name, hint, _test(hint)) for name, hint in get_type_hints(cls).items())


def _test(hint: Any) -> Callable[[Any], bool]:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return lambda value: value in args
    if origin is UnionType:
        tests = [_test(arg) for arg in args]
        return lambda value: any(test(value) for test in tests)
    if origin in (tuple, Mapping):
        inner = _test(args[0] if origin is tuple else args[1])
        if origin is tuple:
            return lambda value: type(value) is tuple and all(map(inner, value))
        return lambda value: type(value) is dict and all(map(inner, value.values()))
    if hint is float:  # an int beyond the largest float is no number either
        return _is_number
    return lambda value: hint is Any or type(value) is hint


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max
