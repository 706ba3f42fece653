"""Names and dicts that functions take or return."""

from __future__ import annotations

from typing import Literal, Optional, TypedDict

#: Times of the chip's array: typical ones, or the maxima of its data sheet.
Corner = Literal["typ", "max"]

#: Treatment of OOB bytes, as the kernel's MTD layer names it.
OobMode = Literal["auto", "place", "raw"]

#: One-time-programmable area.
OtpArea = Literal["user", "factory"]

#: Filesystem on raw flash.
Filesystem = Literal["ubifs", "jffs2"]

#: State of a card at the beginning.
CardState = Literal["empty", "used", "full"]

#: Measurement of a sweep.
Measure = Literal["speed", "fs", "age", "endurance", "powercut", "card"]

#: Format of an image.
ImageFormat = Literal["ubi", "ubifs", "jffs2", "yaffs2", "littlefs", "spiffs"]

#: Compression of an image.
Compression = Literal["lzo", "zlib", "zstd", "none"]


class Sensitivity(TypedDict):
    """Share of the variance of an objective that follows from a key alone, 0 to 1."""

    objective: str
    key: str
    share: float


class PaperSummary(TypedDict):
    """Numbers of published figures by how they come out, and sizes of their residuals as shares."""

    figures: int
    within: int
    tolerated: int
    missed: int
    predicted_missed: int
    fitted: int
    predicted: int
    exceptions: int
    median: Optional[float]
    median_predicted: Optional[float]
    worst: Optional[float]
    worst_row: str


class Refused(TypedDict):
    """A subject and test that could not be measured, and the reason."""

    subject: str
    test: str
    why: str


class PowercutFailure(TypedDict):
    """A failure after power cuts; `id` repeats it with ``floatgate powercut --replay``."""

    id: str
    step: str
    what: str
