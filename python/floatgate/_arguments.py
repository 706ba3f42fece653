"""Arguments that functions share: setups, overrides, chips."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import _floatgate as native

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
    return native.override(argument, key, value)


def overrides(changes: Optional[Overrides]) -> list[str]:
    """All overrides as ``--set`` takes them."""
    return native.overrides({"set": changes})


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
        "set": changes,
        "corner": corner,
        "seed": seed,
        "bad_blocks": bad_blocks,
    }
