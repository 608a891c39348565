"""Policies written in Python."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, TypeVar

from . import _native
from ._arguments import whole
from ._native import Dispatch, Growth, Hold, Request, View

Method = TypeVar("Method", bound=Callable[..., Any])


def _default(method: Method) -> Method:
    """Marks a method that the native part need not call."""
    method._dwell_default = True  # type: ignore[attr-defined]
    return method


class Policy(abc.ABC):
    """The base of a scheduler written in Python, for teaching: the simulation calls it with the GIL, and policies run one after another.

    A policy is a state machine: the queue calls it with events and their times (``now``, nanoseconds of virtual time), and ``next`` returns a
    decision. It has no clock, no thread and no randomness. ``insert``, ``merged`` and ``next`` are required: Python makes no object of a
    class that lacks one (``TypeError``).
    """

    @abc.abstractmethod
    def insert(self, now: int, request: Request) -> None:
        """A request entered the queue."""

    @abc.abstractmethod
    def merged(self, now: int, request: Request, growth: Growth) -> None:
        """A queued request grew: ``request`` is its new state. ``growth.absorbed`` is the id of a queued request that became part of it
        and has ended, or None."""

    @abc.abstractmethod
    def next(self, now: int, view: View) -> Dispatch | Hold | Request | int | None:
        """The device has a free slot: the request to send, a ``Hold``, or None if nothing is queued. A dispatched request leaves the policy."""

    @_default
    def completed(self, now: int, request: Request, outcome: str) -> None:
        """A dispatched request ended: "done", "failed" or "given back"."""

    @_default
    def exited(self, now: int, process: int) -> None:
        """A process ended."""

    @_default
    def may_merge(self, request: Request, addition: Request, side: str) -> bool:
        """Whether a queued request may grow by another one at its "front" or "back"."""
        return True

    @_default
    def longest_wait(self, requests: int, depth: int, service: int) -> int | None:
        """An upper bound in nanoseconds on the time from insertion to dispatch, with at most this number of requests, this depth and this
        longest service time; the checker verifies it. None: no bound."""
        return None


def check_policy(policy: Callable[[], Any], operations: int = 100_000, seed: int = 1) -> None:
    """Runs a policy through random operations in eight settings of the queue, against the checker that verifies the policies in Rust: no
    request is lost or served twice, the device is idle only with a stated reason, no wait exceeds ``longest_wait``, and equal input gives
    equal decisions.

    ``policy`` is a class, or a function without arguments that returns a new policy. Raises ``PolicyError`` with the first violations.
    """
    if not callable(policy):
        raise TypeError(f"policy={policy!r} is no class; give the class itself, or a function that returns a new policy")
    # The model divides them among eight settings.
    _native.check_policy(policy, whole("operations", operations, 8), whole("seed", seed, 0, 2**32))
