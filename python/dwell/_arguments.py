"""Checks of arguments: the error names the argument, what was passed, and what to pass."""

from __future__ import annotations

import importlib.util
import numbers
import os
import reprlib
from collections.abc import Iterable
from typing import Any

from ._errors import InputError

_MOST = 2**63 - 1

_brief = reprlib.Repr()
_brief.maxstring = _brief.maxother = 60


def shown(value: Any) -> str:
    """The type and the value in a message, long ones abbreviated."""
    return f"{type(value).__name__} {_brief.repr(value)}"


def _wrong(name: str, value: Any, expected: str) -> TypeError:
    return TypeError(f"{name} is {shown(value)}; it is {expected}")


def _unicode(name: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name}={value!r} is no valid Unicode text") from None
    return value


def text(name: str, value: Any) -> str:
    """Text."""
    if not isinstance(value, str):
        raise _wrong(name, value, "text")
    return _unicode(name, value)


def optional_text(name: str, value: Any) -> str | None:
    """Text or None."""
    return None if value is None else text(name, value)


def one_of(name: str, value: Any, known: Iterable[str]) -> str:
    """One of these texts."""
    if text(name, value) not in known:
        raise InputError(f"{name}={value!r} is none of {', '.join(known)}")
    return str(value)


def path(name: str, value: Any) -> str:
    """The name of a file or folder."""
    if not isinstance(value, (str, os.PathLike)):
        raise _wrong(name, value, "text or a path")
    found = os.fspath(value)
    return found if isinstance(found, str) else os.fsdecode(found)


def drive(value: Any) -> str:
    """The name or file of a drive."""
    return _unicode("drive", path("drive", value))


def flag(name: str, value: Any) -> bool:
    """True or False, also NumPy's."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise _wrong(name, value, "True or False")
    return bool(value)


def setting(name: str, value: Any, switch: tuple[str, str] = ("True", "False")) -> str:
    """Text, a number, or a flag, as text; ``switch`` has the words for True and False."""
    if type(value).__name__ in ("bool", "bool_"):
        return switch[0] if value else switch[1]
    if not isinstance(value, (str, numbers.Real)):
        raise _wrong(name, value, "text, a number, or True or False")
    return _unicode(name, str(value))


def whole(name: str, value: Any, least: int, most: int = _MOST) -> int:
    """A whole number in a range, also NumPy's."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise _wrong(name, value, "a whole number")
    number = int(value)
    if not least <= number <= most:
        raise InputError(f"{name}={number} is not {f'at least {least}' if number < least and most == _MOST else f'from {least} to {most}'}")
    return number


def texts(name: str, value: Any) -> list[str]:
    """A list of texts, or one text."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable):
        raise _wrong(name, value, "a list of texts")
    return [text(f"{name}[{at}]", item) for at, item in enumerate(value)]


def needs(package: str, method: str) -> None:
    """Checks that a package is installed that only a method needs."""
    if importlib.util.find_spec(package) is None:
        raise InputError(f"{method}() needs the package {package}: pip install {package}")
