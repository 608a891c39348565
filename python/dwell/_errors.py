"""Exceptions of the package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._study import StudyResult


class Error(Exception):
    """The base of all exceptions of this package."""

    #: If some runs of a study could not be executed: the results of the others.
    result: StudyResult | None = None
    #: Their lines, and the reasons.
    _unexecuted: Sequence[tuple[str, str]] = ()


class InputError(Error, ValueError):
    """An argument or a file is wrong. The text names what is wrong, where, and what to do."""


class PolicyError(Error):
    """A policy written in Python violated the contract between queue and policy."""


class InternalError(Error, RuntimeError):
    """A defect of this package."""
