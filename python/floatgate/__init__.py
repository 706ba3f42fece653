"""A workbench for flash storage: how fast, where each microsecond goes, how long it lives.

Each function is a command of ``floatgate``: it takes the name of a setup, chip or card (`setups`, `parts`) or the path of a TOML
file, and returns an object with ``rows``, ``to_dict()`` and ``to_pandas()``. Nothing is printed, and a wrong argument is an
`Error` with advice.

>>> import floatgate
>>> run = floatgate.speed("am62a-w35n01jw", set={"bus.mode": "1S-8S-8S"})
>>> round(run["page read"].kib_s)
10799
"""

from __future__ import annotations

# The same as in `typing`, whose import would take longer than the import of this package.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from ._device import BlockDevice, Geometry, Mtd, NandBus, OtpRegion, SpiBus, Violation
    from ._error import ArgumentError, Error, FlashError, MissingFile, PowerLost
    from ._image import Built, Edit, Extracted, FileInfo, Findings, Image, ImageInfo
    from ._measured import Advice, Answer, Fit, FitRow, Point, Probe, advise, fit, probe
    from ._store import Store, StoreFailure, StorePowercut, powercut_store
    from ._studies import (
        Age,
        CardSpeed,
        Ecc,
        Endurance,
        FsComparison,
        Papers,
        Parts,
        Powercut,
        Setups,
        Span,
        Speed,
        Study,
        Trace,
        age,
        card,
        ecc,
        endurance,
        fs,
        papers,
        parts,
        powercut,
        schema,
        setups,
        speed,
        study,
        trace,
    )
    from ._sweep import Table, sweep

    __version__: str

#: Modules of all public names. A module is imported when one of its names is first used, so the package alone is imported in about 1 ms.
_MODULES = {
    "_device": ("BlockDevice", "Geometry", "Mtd", "NandBus", "OtpRegion", "SpiBus", "Violation"),
    "_error": ("ArgumentError", "Error", "FlashError", "MissingFile", "PowerLost"),
    "_image": ("Built", "Edit", "Extracted", "FileInfo", "Findings", "Image", "ImageInfo"),
    "_measured": ("Advice", "Answer", "Fit", "FitRow", "Point", "Probe", "advise", "fit", "probe"),
    "_store": ("Store", "StoreFailure", "StorePowercut", "powercut_store"),
    "_studies": (
        "Age",
        "CardSpeed",
        "Ecc",
        "Endurance",
        "FsComparison",
        "Papers",
        "Parts",
        "Powercut",
        "Setups",
        "Span",
        "Speed",
        "Study",
        "Trace",
        "age",
        "card",
        "ecc",
        "endurance",
        "fs",
        "papers",
        "parts",
        "powercut",
        "schema",
        "setups",
        "speed",
        "study",
        "trace",
    ),
    "_sweep": ("Table", "sweep"),
}

_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

# Type checkers need this list.
__all__ = [
    "Advice",
    "Age",
    "Answer",
    "ArgumentError",
    "BlockDevice",
    "Built",
    "CardSpeed",
    "Ecc",
    "Edit",
    "Endurance",
    "Error",
    "Extracted",
    "FileInfo",
    "Findings",
    "Fit",
    "FitRow",
    "FlashError",
    "FsComparison",
    "Geometry",
    "Image",
    "ImageInfo",
    "MissingFile",
    "Mtd",
    "NandBus",
    "OtpRegion",
    "Papers",
    "Parts",
    "Point",
    "PowerLost",
    "Powercut",
    "Probe",
    "Setups",
    "Span",
    "Speed",
    "SpiBus",
    "Store",
    "StoreFailure",
    "StorePowercut",
    "Study",
    "Table",
    "Trace",
    "Violation",
    "advise",
    "age",
    "card",
    "ecc",
    "endurance",
    "fit",
    "fs",
    "papers",
    "parts",
    "powercut",
    "powercut_store",
    "probe",
    "schema",
    "setups",
    "speed",
    "study",
    "sweep",
    "trace",
]


def __getattr__(name: str) -> Any:
    """Import a name of the package from its module."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("floatgate")
    elif name in _MODULE_OF:
        from importlib import import_module

        value = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
