"""Inputs of runs: files, and copies of what fsspec addresses name."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import tempfile
import threading
from typing import Any

from . import _native
from ._errors import InputError

_lock = threading.Lock()
#: The hash of each file that this process has verified, by path, size and time of change.
_verified: dict[tuple[str, int, int], str] = {}


def _folder() -> pathlib.Path:
    """Where copies are kept: $DWELL_CACHE, or a folder for this user among temporary files."""
    folder = pathlib.Path(os.environ.get("DWELL_CACHE") or os.path.join(tempfile.gettempdir(), f"dwell-{os.getuid()}"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _fsspec(address: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise InputError(f"{address}: install fsspec to read addresses (pip install fsspec, and its package for the protocol)") from None
    return fsspec


def _reason(error: BaseException, address: str) -> str:
    """The text of an exception. Some file systems raise one that has the address only, and its cause has the reason."""
    if (text := f"{error}") not in ("", address):
        return text
    cause = error.__cause__ or error.__context__
    return _reason(cause, address) if cause else type(error).__name__


def _of_process(address: str) -> str:
    """A note about addresses that another process cannot read."""
    return " (memory:// exists in the Python process that wrote it only)" if address.startswith("memory:") else ""


def _copy(address: str) -> str:
    """Copies what an address names; returns the path, which is the content's hash."""
    fsspec = _fsspec(address)
    folder = _folder()
    # The name's end belongs to the format in some cases.
    suffix = "".join(pathlib.PurePosixPath(address.rpartition("/")[2]).suffixes)
    number, name = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(number, "wb") as copy, fsspec.open(address, "rb") as source:
            while block := source.read(1 << 20):
                copy.write(block)
        path = folder / (_native.sha256(name) + suffix)
        os.replace(name, path)
    except Exception as error:  # Each file system has exceptions of its own.
        raise InputError(f"{address}: cannot be read: {_reason(error, address)}{_of_process(address)}") from None
    finally:
        # Still there if the copy is not complete, also after Ctrl-C.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
    return str(path)


def copies(pattern: str) -> list[tuple[str, str]]:
    """Each address that matches the pattern, and the path of its copy."""
    fsspec = _fsspec(pattern)
    addresses = [pattern]
    if any(letter in pattern for letter in "*?["):
        try:
            system, _ = fsspec.core.url_to_fs(pattern)
            addresses = sorted(system.unstrip_protocol(path) for path in system.glob(pattern))
        except Exception as error:
            raise InputError(f"{pattern}: cannot be listed: {_reason(error, pattern)}") from None
        if not addresses:
            raise InputError(f"{pattern}: nothing matches; check the address{_of_process(pattern)}")
    return [(address, _copy(address)) for address in addresses]


def localised(description: dict[str, Any]) -> str:
    """The description of a run, as JSON, whose inputs are files here, with the content that the description states."""
    for name in ("workload", "drive", "machine"):
        given = description.get(name)
        if given and given.get("sha256"):
            given["path"] = _local(given["path"], given["sha256"], name)
    return json.dumps(description)


def _hash(file: str) -> str:
    """The content's hash, computed once for each state of the file."""
    about = os.stat(file)
    key = (file, about.st_size, about.st_mtime_ns)
    if key not in _verified:
        _verified[key] = _native.sha256(file)
    return _verified[key]


def _local(place: str, expected: str, name: str) -> str:
    with _lock:
        # Overrides follow the hash as they follow the name.
        wanted, brace, inside = expected.partition("{")
        overrides = brace + inside
        file = place.removesuffix(overrides)
        if "://" in file:
            suffix = "".join(pathlib.PurePosixPath(file.rpartition("/")[2]).suffixes)
            known = _folder() / (wanted + suffix)
            # A copy that was damaged since is replaced.
            is_sound = known.exists() and _hash(str(known)) == wanted
            file = str(known) if is_sound else _copy(file)
        try:
            found = _hash(file)
        except OSError as error:
            raise InputError(
                f"{file}: cannot be read on this worker: {error.strerror}; put it on a path that all workers share, or name it by an address"
            ) from None
        if found != wanted:
            raise InputError(f"{place}: this worker's {name} has another content than the client's; copy it anew, or start the study again")
        return file + overrides
