"""A workbench for flash storage: how fast, where each microsecond goes, how long it lives.

Each function is a command of ``floatgate``: it takes the name of a setup, chip or card (`setups`, `parts`) or the path of a TOML
file, and returns an object with ``rows``, ``to_dict()`` and ``to_pandas()``. Nothing is printed, and a wrong argument is an
`Error` that says what to do.

>>> import floatgate
>>> run = floatgate.speed("am62a-w35n01jw", set={"bus.mode": "1S-8S-8S"})
>>> round(run["page read"].kib_s)
11016
"""

from __future__ import annotations

from importlib.metadata import version as _version

from ._device import BlockDevice, Geometry, Mtd, SpiBus
from ._error import Error, MissingFile
from ._image import Built, Edit, Extracted, FileInfo, Findings, Image, ImageInfo
from ._measured import Advice, Answer, Fit, FitRow, Point, Probe, advise, fit, probe
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

__version__ = _version("floatgate")

__all__ = [
    "Advice",
    "Age",
    "Answer",
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
    "FsComparison",
    "Geometry",
    "Image",
    "ImageInfo",
    "MissingFile",
    "Mtd",
    "Papers",
    "Parts",
    "Point",
    "Powercut",
    "Probe",
    "Setups",
    "Span",
    "Speed",
    "SpiBus",
    "Study",
    "Table",
    "Trace",
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
    "probe",
    "schema",
    "setups",
    "speed",
    "study",
    "sweep",
    "trace",
]
