"""Conversion of arguments that several functions accept: setups, overrides, chips."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, TypeVar, Union

from . import _floatgate as native
from ._error import ArgumentError

Value = Union[str, int, float, bool]
Path = Union[str, "os.PathLike[str]"]
Overrides = Mapping[str, Value]
T = TypeVar("T")


def fspath(argument: str, path: Path) -> str:
    """Text of a path; `argument` is the name of the argument."""
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    raise TypeError(f"{argument}: expected a str or a path, got {path!r}")


def image_path(argument: str, path: Union[Path, bytes]) -> bytes:
    """Bytes of a path in an image; `argument` is the name of the argument."""
    return path if isinstance(path, bytes) else os.fsencode(fspath(argument, path))


def strings(argument: str, texts: Union[str, Sequence[str]]) -> list[str]:
    """List of texts; a single text becomes a list of one."""
    all_texts = [texts] if isinstance(texts, str) else list(texts) if isinstance(texts, Iterable) else [texts]
    if wrong := [text for text in all_texts if not isinstance(text, str)]:
        raise TypeError(f"{argument}: expected a str or a sequence of them, got {wrong[0]!r}")
    return all_texts


def numbers(argument: str, values: Sequence[int]) -> Sequence[int]:
    """List of numbers. The native module checks their types."""
    if isinstance(values, (tuple, list)):
        return values
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{argument}: expected a sequence of int, got {values!r}")
    return list(values)


def override(argument: str, key: str, value: Value) -> str:
    """One override in the form of ``--set``, ``key=value``; `argument` is the name of the mapping."""
    return native.override(argument, key, value)


def overrides(changes: Optional[Overrides]) -> list[str]:
    """All overrides in the form of ``--set``."""
    return native.overrides({"set": changes})


def named(
    setup: Path,
    changes: Optional[Overrides],
    corner: str = "typ",
    seed: int = 0,
    bad_blocks: int = 0,
    partition: Optional[int] = None,
) -> native.Named:
    """A setup in the form that the native module accepts."""
    return (setup, changes, corner, seed, bad_blocks, partition)


def renamed(old: str, value: T, new: str, given: object) -> T:
    """Value of an argument by its older name, with a warning; `given` is the value by its new name, or None."""
    if given is not None:
        raise ArgumentError(f"{old}: this is the older name of `{new}`, which is given, too", f"leave `{old}` out")
    warnings.warn(f"the argument `{old}` is now called `{new}`", DeprecationWarning, stacklevel=3)
    return value
