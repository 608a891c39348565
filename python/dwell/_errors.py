"""Exceptions of the package."""


class Error(Exception):
    """The base of all exceptions of this package."""


class InputError(Error, ValueError):
    """An argument or a file is wrong. The text names what is wrong, where, and what to do."""


class PolicyError(Error):
    """A policy written in Python violated the contract between queue and policy."""


class InternalError(Error, RuntimeError):
    """A defect of this package."""
