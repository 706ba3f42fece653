"""Arguments that functions share: setups, overrides, chips."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, Optional, Union

from ._error import Error

Value = Union[str, int, float, bool]
Path = Union[str, "os.PathLike[str]"]
Overrides = Mapping[str, Value]


def fspath(argument: str, path: Path) -> str:
    """A path as a text; `argument` is its name."""
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    raise TypeError(f"{argument}: expected a str or a path, got {path!r}")


def override(argument: str, key: str, value: Value) -> str:
    """One override as ``--set`` takes it, ``key=value``; `argument` is the name of the mapping."""
    if not isinstance(key, str):
        raise TypeError(f"{argument}: expected keys such as 'bus.clock_hz', got {key!r}")
    if "=" in key:
        raise Error(f"{key!r} is no key", "keys are like `bus.clock_hz`; the value stands behind the colon")
    return f"{key}={_text(key, value)}"


def _text(key: str, value: Any) -> str:
    # Scalars of numpy have the value itself in item().
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    raise Error(f"{key}: {value!r} is no value of a setup", "give a str, a bool, an int or a finite float")


def overrides(changes: Optional[Overrides]) -> list[str]:
    """All overrides as ``--set`` takes them."""
    if changes is not None and not isinstance(changes, Mapping):
        raise TypeError(f"set: expected a mapping such as {{'bus.clock_hz': 50e6}}, got {changes!r}")
    return [override("set", key, value) for key, value in (changes or {}).items()]


def named(
    setup: Path,
    changes: Optional[Overrides],
    *,
    corner: str = "typ",
    seed: int = 0,
    bad_blocks: int = 0,
) -> dict[str, Any]:
    """A setup as the native module takes it."""
    return {
        "setup": fspath("setup", setup),
        "set": overrides(changes),
        "corner": corner,
        "seed": seed,
        "bad_blocks": bad_blocks,
    }
