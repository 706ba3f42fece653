"""Studies of one setup, chip or card. Each function has the name of its command."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Optional, Union, cast

from . import _floatgate as native
from ._arguments import Overrides, Path, fspath, named, numbers, overrides, renamed, strings
from ._error import ArgumentError
from ._plot import Plotted, bars, points, waterfall
from ._result import Result, row, row_of
from ._types import Corner, Filesystem, PaperSummary, PowercutFailure, Refused

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class SetupRow:
    """A built-in setup: its name, board and chip, and the family of the chip."""

    name: str
    title: str
    chip: str
    kind: str


@dataclass(frozen=True)
class PartRow:
    """A built-in chip or card.

    Attributes
    ----------
    part : str
        Name by which it is found.
    name, maker, kind, title : str
        Name that the maker uses, the maker, the family, and a description.
    lowest_confidence : float
        Confidence of its least certain value, 0 to 1.
    """

    part: str
    name: str
    maker: str
    kind: str
    title: str
    lowest_confidence: float


@dataclass(frozen=True)
class SpeedRow:
    """A test of ``speed``.

    Attributes
    ----------
    name : str
        Name of the test, such as ``page read``.
    kib_s : float
        Exact speed in KiB/s; 0 if no bytes are moved.
    printed_kib_s : int
        Speed in KiB/s as ``flash_speed`` prints it: rounded down, 0 under 1 ms.
    us : float
        Microseconds per call.
    calls, bytes : int
        Number of calls, and number of bytes that they moved or erased.
    ns : int
        Nanoseconds of all calls.
    bitflips, retries, scrub_requests : int
        Bits that the ECC corrected, read retries, and calls that requested scrubbing.
    breakdown_ns : dict of str to int
        Nanoseconds by phase; they add up to `ns`.
    interval_min, interval_max : float
        The 80 % interval of `kib_s`, or of the milliseconds if no bytes are moved.
    mj_per_mib : float, optional
        Energy of the chip per MiB in mJ; ``None`` if the part has no table ``[supply]``.
    """

    name: str
    kib_s: float
    printed_kib_s: int
    us: float
    calls: int
    bytes: int
    ns: int
    bitflips: int
    retries: int
    scrub_requests: int
    breakdown_ns: dict[str, int]
    interval_min: float
    interval_max: float
    mj_per_mib: Optional[float]


@dataclass(frozen=True)
class Span:
    """Activity of a resource.

    Attributes
    ----------
    resource : str
        Active resource: ``cpu``, ``bus``, ``die 0``, ``ecc`` and so on.
    phase : str
        Phase in the breakdown: ``array``, ``data``, ``cpu`` and so on.
    start_ns, end_ns : int
        Virtual time in ns, since the start of the operation for `trace`, and since power-on for `Mtd.observe`.
    what : str
        The activity, such as ``tR``.
    """

    resource: str
    phase: str
    start_ns: int
    end_ns: int
    what: str


@dataclass(frozen=True)
class PaperRow:
    """A published figure with the simulated one.

    Attributes
    ----------
    paper, table, row, setup : str
        Source of the published figure, and the simulated setup.
    unit : str
        Unit of `published` and `simulated`.
    residual : float
        Simulated figure divided by published figure, minus 1.
    kind : str
        ``fitted``, ``predicted`` or ``exception``.
    """

    paper: str
    table: str
    row: str
    unit: str
    published: float
    simulated: float
    residual: float
    kind: str
    setup: str


@dataclass(frozen=True)
class EnduranceRow:
    """Lives of the blocks of a chip.

    Attributes
    ----------
    part, chip, evidence : str
        Name of the part, name of the chip, and evidence for the model.
    nominal_cycles : int
        Cycles that the data sheet promises.
    life : dict
        Cycles until the status fails: ``min``, ``median``, ``max``, ``mean``, ``sd``.
    program, erase : dict
        Times in us, with those of the first and the last 100 cycles.
    """

    part: str
    chip: str
    evidence: str
    nominal_cycles: int
    life: dict[str, Any]
    program: dict[str, float]
    erase: dict[str, float]


@dataclass(frozen=True)
class FsRow:
    """A figure of a filesystem or of the bare flash, in `unit`; `ns` is its time in virtual nanoseconds."""

    subject: str
    test: str
    name: str
    value: float
    unit: str
    bytes: int
    ns: int
    write_amplification: Optional[float]
    bottleneck: Optional[str]
    breakdown_ns: dict[str, int]


@dataclass(frozen=True)
class Life:
    """Life of one chip.

    Attributes
    ----------
    seed : int
        Seed of the chip.
    failed_after_years : float or None
        Years until it failed; ``None`` if it survived.
    failure : str or None
        Description of the failure.
    moved, bad_blocks : int
        Number of LEBs that were moved because of bit errors, and number of blocks that became bad.
    cycles : dict of str to int
        Erase cycles of the least worn block, mean, and erase cycles of the most worn block.
    """

    seed: int
    failed_after_years: Optional[float]
    failure: Optional[str]
    moved: int
    bad_blocks: int
    cycles: dict[str, int]


@dataclass(frozen=True)
class CutRow:
    """Runs and cuts in one kind of step, and how many failed."""

    step: str
    runs: int
    cuts: int
    found_earlier: int
    found_before: int
    found_after: int
    recovery_operations: int
    recovery_operations_max: int
    failures: int


@dataclass(frozen=True)
class CodeRow:
    """An ECC code for a chip.

    Attributes
    ----------
    code : str
        Its name, such as ``bch8/512``.
    ecc_bytes : int
        OOB bytes of a page that it needs.
    fits, enough : bool
        True if the OOB has space for the code, and true if the code is sufficient for the rated cycles.
    tolerated_rber : float
        Raw bit error rate up to which the code is sufficient.
    cycles : int
        Number of cycles up to which the code is sufficient.
    lost_pages : float
        Probability that a page is lost at the rated cycles.
    """

    code: str
    ecc_bytes: int
    fits: bool
    tolerated_rber: float
    cycles: int
    lost_pages: float
    enough: bool


@dataclass(frozen=True)
class CardRow:
    """Requests to a card: speed in MB/s (10^6 bytes), latencies in us."""

    state: str
    operation: str
    access: str
    request_bytes: int
    requests: int
    is_steady: bool
    mb_s: float
    iops: float
    mean_us: float
    p50_us: float
    p95_us: float
    p99_us: float
    max_us: float
    write_amplification: float
    erases: int


class Speed(Plotted[SpeedRow]):
    """Result of `speed`."""

    def _columns(self) -> dict[str, list[Any]]:
        columns = super()._columns()
        return {**columns, "interval_unit": ["KiB/s" if test.bytes else "ms" for test in self.rows]}

    # Most callers need only some figures. The result therefore stays in Rust until its rows or its JSON are requested.
    def __init__(self, run: native.NativeSpeed) -> None:
        self._run = run

    @functools.cached_property
    def _data(self) -> Mapping[str, Any]:
        data: Mapping[str, Any] = json.loads(self._run.json())
        return data

    @functools.cached_property
    def rows(self) -> list[SpeedRow]:
        """The tests, in the order of ``flash_speed``."""
        return [row_of(SpeedRow, (*values, *others)) for values, others in self._run.rows()]

    def __getstate__(self) -> dict[str, Any]:
        """A pickle contains the rows and the JSON."""
        return {"_data": self._data, "rows": self.rows}

    def _draw(self, ax: Axes) -> None:
        moved = [test for test in self.rows if test.bytes]
        bars(ax, [test.name for test in moved], [test.kib_s for test in moved], "KiB/s")

    @property
    def title(self) -> str:
        """Title of the setup."""
        return str(self._data["title"])

    @property
    def chip(self) -> str:
        """Maker and name of the chip."""
        return str(self._data["chip"])

    @property
    def reads(self) -> str:
        """Operation and clock of reads."""
        return str(self._data["link"]["read"])

    @property
    def writes(self) -> str:
        """Operation and clock of writes."""
        return str(self._data["link"]["write"])

    def __getitem__(self, name: str) -> SpeedRow:
        """The test with this name."""
        return self._find("name", name)

    def __contains__(self, name: object) -> bool:
        """True if there is a test with this name."""
        return any(name in (test.name, test) for test in self.rows)


class Trace(Plotted[Span]):
    """Result of `trace`."""

    def _draw(self, ax: Axes) -> None:
        waterfall(ax, [(span.resource, span.phase, span.start_ns, span.end_ns) for span in self.rows])

    @property
    def ns(self) -> int:
        """Duration in ns."""
        return int(self._data["ns"])

    @property
    def breakdown_ns(self) -> dict[str, int]:
        """Nanoseconds by phase; they add up to `ns`."""
        return dict(self._data["breakdown_ns"])


class Papers(Plotted[PaperRow]):
    """Result of `papers`."""

    def _draw(self, ax: Axes) -> None:
        points(
            ax,
            [row.published for row in self.rows],
            [row.simulated for row in self.rows],
            ("published", "simulated, in the same unit"),
        )

    @property
    def summary(self) -> PaperSummary:
        """Numbers of figures and of missed ones, and median and worst residual."""
        return cast(PaperSummary, dict(self._data["summary"]))


class Endurance(Plotted[EnduranceRow]):
    """Result of `endurance`; one row per chip."""

    def _units(self) -> dict[str, str]:
        return {"life": "cycles", "program": "us", "erase": "us"}

    def _draw(self, ax: Axes) -> None:
        lives = [row.life for row in self.rows]
        bars(
            ax,
            [row.part for row in self.rows],
            [life["median"] for life in lives],
            "cycles until a block fails: median, least and most",
            log=True,
            errors=[(life["min"], life["max"]) for life in lives],
        )


class FsComparison(Plotted[FsRow]):
    """Result of `fs`."""

    def _draw(self, ax: Axes) -> None:
        # Figures of one unit share an axis.
        unit = self.rows[0].unit if self.rows else ""
        same = [row for row in self.rows if row.unit == unit]
        bars(ax, [f"{row.subject}: {row.name}" for row in same], [row.value for row in same], unit)

    @property
    def advice(self) -> list[str]:
        """Conclusions from the figures, in sentences."""
        return list(self._data["advice"])

    @property
    def refused(self) -> list[Refused]:
        """Figures that could not be measured, with the reasons."""
        return list(self._data["refused"])


class Age(Plotted[Life]):
    """Result of `age`; one row per chip."""

    def _columns(self) -> dict[str, list[Any]]:
        columns = super()._columns()
        return {"erase_cycles" if name == "cycles" else name: values for name, values in columns.items()}

    @property
    def _run(self) -> Mapping[str, Any]:
        # The command accepts several periods of ubihealthd, and has a run for each of them.
        run: Mapping[str, Any] = self._data["runs"][0]
        return run

    def _title(self) -> str:
        return str(self._run["title"])

    def _draw(self, ax: Axes) -> None:
        years = float(self._run["years"])
        lived = [years if life.failed_after_years is None else life.failed_after_years for life in self.rows]
        bars(ax, [f"seed {life.seed}" for life in self.rows], lived, "years lived")

    @property
    def survived(self) -> int:
        """Number of chips that survived."""
        return int(self._run["survived"])

    @property
    def probability(self) -> Optional[tuple[float, float]]:
        """Interval of the probability of survival, at 95 % confidence; ``None`` if all chips have the same life. Chips that differ
        only in their seed do not show how real chips differ, however many there are.
        """
        if self._run["probability"] is None:
            return None
        low, high = self._run["probability"]
        return float(low), float(high)


class Powercut(Plotted[CutRow]):
    """Result of `powercut`; one row per kind of step."""

    def _draw(self, ax: Axes) -> None:
        bars(ax, [row.step for row in self.rows], [row.cuts for row in self.rows], "power cuts")

    @property
    def cuts(self) -> int:
        """Number of power cuts."""
        return int(self._data["cuts"])

    @property
    def failures(self) -> list[PowercutFailure]:
        """Failures with the ids that replay them (``floatgate powercut --replay ID``)."""
        return list(self._data["failures"])

    @property
    def failure_count(self) -> int:
        """Number of runs that failed."""
        return int(self._data["failure_count"])


class Ecc(Plotted[CodeRow]):
    """Result of `ecc`; one row per code."""

    def _draw(self, ax: Axes) -> None:
        bars(ax, [row.code for row in self.rows], [row.cycles for row in self.rows], "cycles for which it holds", log=True)

    @property
    def needs(self) -> Optional[str]:
        """The weakest code that fits and is sufficient for the rated cycles, if there is one."""
        needs = self._data["needs"]
        return None if needs is None else str(needs)


class CardSpeed(Plotted[CardRow]):
    """Result of `card`."""

    def _draw(self, ax: Axes) -> None:
        names = [f"{row.state}, {row.access} {row.operation}, {row.request_bytes} bytes" for row in self.rows]
        bars(ax, names, [row.mb_s for row in self.rows], "MB/s")


class Setups(Result[SetupRow]):
    """Result of `setups`."""


class Parts(Result[PartRow]):
    """Result of `parts`."""


def setups() -> Setups:
    """The built-in setups.

    Returns
    -------
    Setups
        A row for each setup.

    Examples
    --------
    >>> "am62a-w35n01jw" in [row.name for row in setups()]
    True
    """
    data = json.loads(native.setups())
    return Setups(data, [row(SetupRow, entry) for entry in data["rows"]])


def parts() -> Parts:
    """The built-in chips and cards.

    Returns
    -------
    Parts
        A row for each part.

    Examples
    --------
    >>> "mx30lf2g18ac" in [row.part for row in parts()]
    True
    """
    data = json.loads(native.parts())
    return Parts(data, [row(PartRow, entry) for entry in data["rows"]])


def schema(kind: Optional[str] = None) -> dict[str, Any]:
    """JSON Schema (2020-12) of the results of a kind, or of all kinds.

    Parameters
    ----------
    kind
        Value of ``kind`` in a result, such as ``"speed"``. Without it the schema covers every kind.

    Returns
    -------
    dict
        Schema as a dict, ready for a validator.

    Raises
    ------
    ArgumentError
        There is no result of this kind.

    Examples
    --------
    >>> schema("speed")["properties"]["kind"]
    {'const': 'speed'}
    """
    found: dict[str, Any] = json.loads(native.result_schema(kind))
    return found


def speed(
    setup: Path,
    set: Optional[Overrides] = None,
    *,
    corner: Corner = "typ",
    seed: int = 0,
    bad_blocks: int = 0,
    first_block: int = 0,
    blocks: int = 10,
    skip: int = 0,
    pages: Sequence[int] = (),
    continuous: bool = False,
    secondary_block: Optional[int] = None,
    fs: Optional[Filesystem] = None,
    advice: bool = False,
    partition: Optional[int] = None,
) -> Speed:
    """``flash_speed``'s tests on a setup, in virtual time.

    Parameters
    ----------
    setup : str or path
        Name of a built-in setup, or the path of a TOML file.
    set : mapping, optional
        Overrides: ``{"bus.mode": "1S-8S-8S", "bus.clock_hz": 50e6}``.
    corner : {"typ", "max"}
        Times of the chip's array: typical ones, or the maxima of its data sheet.
    seed : int
        Seed of all properties that differ from chip to chip.
    bad_blocks : int
        Number of factory bad blocks (NAND).
    first_block, blocks, skip : int
        First eraseblock, number of eraseblocks, and number of eraseblocks to skip between two.
    pages : sequence of int
        Also read in units of these numbers of pages.
    continuous : bool
        Also read in units of 2 to 16, 32 and 64 pages.
    secondary_block : int, optional
        Read this block while the first one is written; the latency is in ``to_dict()["latency"]``.
    fs : {"ubifs", "jffs2"}, optional
        Test a new filesystem on the flash instead of the bare flash.
    advice : bool
        Also try every single change that might be faster, into ``to_dict()["advice"]``.
    partition : int, optional
        Bytes of the partition in use; that of the setup by default, or the whole chip.

    Returns
    -------
    Speed
        A row for each test.

    Raises
    ------
    ArgumentError
        The setup or an override is wrong, or the driver does not support the chip in this setup.

    Examples
    --------
    >>> speed("am62a-w35n01jw", {"bus.mode": "1S-8S-8S"})["page read"].breakdown_ns["array"] > 0
    True
    """
    of = named(setup, set, corner, seed, bad_blocks, partition)
    tests = (first_block, blocks, skip, numbers("pages", pages), continuous, secondary_block, fs, advice)
    return Speed(native.speed(of, tests))


def trace(
    setup: Path,
    operation: str = "read-page",
    set: Optional[Overrides] = None,
    *,
    corner: Corner = "typ",
    seed: int = 0,
    bad_blocks: int = 0,
    partition: Optional[int] = None,
) -> Trace:
    """Record one operation: the activities of each resource over time.

    Parameters
    ----------
    setup, set, corner, seed, bad_blocks
        As for `speed`.
    operation : str
        ``read-page``, ``read-2-pages``, ``read-block``, ``write-page``, ``erase``, ``mount``, ``write-file`` and the like.
    partition : int, optional
        Bytes of the partition in use; that of the setup by default, or the whole chip.

    Returns
    -------
    Trace
        A row for each activity of a resource.

    Raises
    ------
    ArgumentError
        The setup, an override or an option is wrong.

    Examples
    --------
    >>> [span.what for span in trace("am62a-w35n01jw", "erase") if span.resource == "die 0"][-1]
    'tBERS'
    """
    of = named(setup, set, corner=corner, seed=seed, bad_blocks=bad_blocks, partition=partition)
    data = json.loads(native.trace_operation(of, operation))
    return Trace(data, [row(Span, span) for span in data["spans"]])


def papers(table: Path = "", *, seed: int = 0) -> Papers:
    """Published figures with the simulated ones.

    Parameters
    ----------
    table : str or path
        A paper (``P0``), a table (``octal``, ``P0/octal``) or the path of a TOML file; all by default.
    seed : int
        Seed of the chips in the rows on endurance.

    Returns
    -------
    Papers
        A row for each published figure.

    Raises
    ------
    ArgumentError
        No paper or table has that name.

    Examples
    --------
    >>> papers("octal").summary["missed"]
    0
    """
    data = json.loads(native.compare_papers(fspath("table", table), seed))
    return Papers(data, [row(PaperRow, entry) for entry in data["rows"]])


def endurance(
    chip: Optional[Path] = None,
    set: Optional[Overrides] = None,
    *,
    blocks: int = 10,
    chips: int = 1,
    seed: int = 0,
    pages: Literal["1", "all"] = "1",
    temperature_c: float = 25.0,
    pattern: Literal["zeroes", "ones", "random", "checker"] = "zeroes",
    erase_only: bool = False,
    interleave: int = 1,
) -> Endurance:
    """Whole lives of blocks: cycles until the status fails, and times as a function of wear.

    Parameters
    ----------
    chip : str or path, optional
        A NAND part; by default the eight chips of Desnoyers 2009.
    set : mapping, optional
        Overrides of the chip: ``{"chip.wear.life_factor": 30}``.
    blocks : int
        Blocks of each chip.
    pages : {"1", "all"}
        Pages of the block that each cycle programs.
    temperature_c : float
        Degrees Celsius.
    pattern : {"zeroes", "ones", "random", "checker"}
        Data to program.

    chips, seed : int
        Number of chips, and seed of the first one.
    erase_only : bool
        Erase without programming.
    interleave : int
        Number of blocks written alternately, which has no effect on wear.

    Returns
    -------
    Endurance
        A row for each chip.

    Raises
    ------
    ArgumentError
        The chip, an override or an option is wrong.

    Examples
    --------
    >>> endurance("mx30lf2g18ac", blocks=2).rows[0].nominal_cycles
    100000
    """
    wear = {
        "blocks": blocks,
        "chips": chips,
        "seed": seed,
        "pages": pages,
        "temperature_c": temperature_c,
        "pattern": pattern,
        "erase_only": erase_only,
        "interleave": interleave,
    }
    name = None if chip is None else fspath("chip", chip)
    data = json.loads(native.wear_out(name, overrides(set), wear))
    reports = data["rows"] if chip is None else [data]
    return Endurance(data, [row(EnduranceRow, report) for report in reports])


def fs(
    setup: Path,
    set: Optional[Overrides] = None,
    *,
    filesystems: Sequence[str] = ("raw", "jffs2", "ubifs"),
    tests: Optional[Sequence[str]] = None,
    bytes: int = 10 << 20,
    fill_percent: int = 80,
    seed: int = 0,
    bad_blocks: int = 0,
    partition: Optional[int] = None,
) -> FsComparison:
    """Comparison of JFFS2, UBIFS and the bare flash.

    Parameters
    ----------
    setup, set, seed, bad_blocks
        As for `speed`.
    filesystems : sequence of str
        ``jffs2``, ``ubifs``, ``mtdblock``, ``mtdchar``, and ``raw`` for the last two.
    tests : sequence of str, optional
        ``write``, ``read``, ``mount``, ``space``, ``sync``, ``bad-blocks``, ``volumes``; all by default.
    bytes : int
        Bytes of the file that is written and read.
    fill_percent : int
        Percent of the free space that files take when mounting is measured.
    partition : int, optional
        Bytes of the partition in use; that of the setup by default, or the whole chip.

    Returns
    -------
    FsComparison
        A row for each figure of a filesystem.

    Raises
    ------
    ArgumentError
        The setup, an override or an option is wrong, or nothing is left to compare.

    Examples
    --------
    >>> run = fs("imx6-mx30lf2g18ac", partition=16 << 20, filesystems="ubifs", tests="mount")
    >>> any(row.name.startswith("mount") and row.unit == "s" for row in run)
    True
    """
    chosen = {
        "filesystems": strings("filesystems", filesystems),
        "tests": None if tests is None else strings("tests", tests),
    }
    if empty := [name for name, names in chosen.items() if names == []]:
        raise ArgumentError(f"{empty[0]}: there is nothing to compare", f"give one of `{empty[0]}`, or leave it out")
    comparison = {
        **chosen,
        "bytes": bytes,
        "fill_percent": fill_percent,
    }
    of = named(setup, set, seed=seed, bad_blocks=bad_blocks, partition=partition)
    data = json.loads(native.compare_filesystems(of, comparison))
    return FsComparison(data, [row(FsRow, entry) for entry in data["rows"]])


def age(
    setup: Path,
    set: Optional[Overrides] = None,
    *,
    fs: Filesystem = "ubifs",
    years: float = 10.0,
    temperature_c: float = 40.0,
    write_bytes_per_day: int = 10 << 20,
    fill_percent: int = 50,
    scrub_days: Optional[int] = 91,
    chips: int = 5,
    seed: int = 0,
    partition: Optional[int] = None,
) -> Age:
    """Simulate a filesystem over years, on cells that wear and lose charge.

    Parameters
    ----------
    setup, set
        As for `speed`; a setup with a NAND, because cells of NOR are not simulated.
    fs : {"ubifs", "jffs2"}
        Filesystem that ages.
    years : float
        Simulated years of each chip, 0.1 to 100.
    temperature_c : float
        Degrees Celsius, -55 to 150.
    write_bytes_per_day : int
        Bytes written in a day.
    fill_percent : int
        Percent of the free space that permanent files take, 1 to 80.
    scrub_days : int or None
        Days between two passes of ubihealthd; ``None`` without it.
    chips : int
        Number of chips, each with a seed of its own.
    seed : int
        Seed of the first chip.
    partition : int, optional
        Bytes of the partition in use; that of the setup by default, or the whole chip.

    Returns
    -------
    Age
        A row for each chip.

    Raises
    ------
    ArgumentError
        The setup, an override or an option is wrong, or the setup has a NOR.

    Examples
    --------
    >>> mlc = {"chip": "study-mlc-2y-nm", "ecc.strength": 40, "cells.cycles": 20}  # cells with measured bit errors
    >>> mlc.update({"partition.size": "48MiB", "filesystem.ubi_bad_limit_of_partition": True})
    >>> some = {"write_bytes_per_day": 64 << 10, "fill_percent": 5, "chips": 1}
    >>> age("chip-h27ucg8t2etr-bc", mlc, **some).survived  # ten years at 40 degrees, scrubbed every 91 days
    1
    >>> [life.failed_after_years < 6 for life in age("chip-h27ucg8t2etr-bc", mlc, scrub_days=None, **some)]
    [True]
    """
    lives = {
        "fs": fs,
        "years": years,
        "temperature_c": temperature_c,
        "write_bytes_per_day": write_bytes_per_day,
        "fill_percent": fill_percent,
        "scrub_days": scrub_days,
        "chips": chips,
    }
    data = json.loads(native.live(named(setup, set, seed=seed, partition=partition), lives))
    return Age(data, [row(Life, life) for life in data["runs"][0]["lives"]])


def powercut(
    setup: Path,
    set: Optional[Overrides] = None,
    *,
    fs: Filesystem = "ubifs",
    mode: Literal["linear", "log", "exhaustive", "random", "unmount"] = "linear",
    cuts: int = 1000,
    steps: int = 150,
    recovery_cuts: Union[int, Literal["exhaustive"], None] = None,
    fast: bool = False,
    faults: bool = False,
    partition: Optional[int] = None,
    seed: int = 0,
    second: Optional[Literal["never", "sampled", "exhaustive"]] = None,
    size: Optional[int] = None,
) -> Powercut:
    """Cut the power of a filesystem at flash operations. After each cut it must mount with all synchronised data.

    Parameters
    ----------
    setup, set
        As for `speed`.
    fs : {"ubifs", "jffs2"}
        Filesystem that loses power.
    mode : {"linear", "log", "exhaustive", "random", "unmount"}
        Which flash operations are cut.
    cuts : int
        Number of first cuts of the modes random and linear.
    steps : int
        Steps of the workload.
    recovery_cuts : {0, 1, "exhaustive"}
        Number of further cuts after each first one, in its recovery; 0 by default. ``"exhaustive"`` cuts at every operation of each recovery.
    fast : bool
        Flash in memory instead of the simulated chip.
    faults : bool
        Bad blocks, and in memory bit errors, too.
    partition : int, optional
        Bytes of the flash; 16 MiB by default.
    seed : int
        Seed of the workload and of what cuts leave.
    second, size
        Deprecated: older names of `recovery_cuts` and `partition`. `second` is ``"never"``, ``"sampled"`` or ``"exhaustive"``.

    Returns
    -------
    Powercut
        A row for each kind of step.

    Raises
    ------
    ArgumentError
        The setup, an override or an option is wrong.

    Examples
    --------
    >>> run = powercut("imx6-mx30lf2g18ac", cuts=4, steps=20)
    >>> run.cuts, run.failure_count
    (4, 0)
    """
    campaign = {
        "fs": fs,
        "mode": mode,
        "cuts": cuts,
        "steps": steps,
        "second": _recovery_cuts(recovery_cuts) if second is None else renamed("second", second, "recovery_cuts", recovery_cuts),
        "fast": fast,
        "faults": faults,
        "partition": partition if size is None else renamed("size", size, "partition", partition),
    }
    data = json.loads(native.cut_power(fspath("setup", setup), overrides(set), seed, campaign))
    return Powercut(data, [row(CutRow, step) for step in data["by_step"]])


def _recovery_cuts(cuts: Union[int, str, None]) -> str:
    """Cuts of recoveries, as the native module calls them."""
    names: dict[Union[int, str], str] = {0: "never", 1: "sampled", "exhaustive": "exhaustive"}
    cuts = 0 if cuts is None else cuts
    if isinstance(cuts, bool) or not isinstance(cuts, (int, str)):
        raise TypeError(f'recovery_cuts: expected an int or "exhaustive", got {cuts!r}')
    if cuts not in names:
        raise ArgumentError(f"recovery_cuts: {cuts!r} is out of range", 'give 0, 1 or "exhaustive"')
    return names[cuts]


def ecc(
    chip: Path,
    set: Optional[Overrides] = None,
    *,
    codes: Sequence[str] = (),
    years: float = 1.0,
    temperature_c: float = 40.0,
    reads: float = 1e4,
    uber: float = 1e-15,
) -> Ecc:
    """Find the ECC code that a chip needs (``floatgate ecc advise``).

    Parameters
    ----------
    chip : str or path
        A NAND part.
    set : mapping, optional
        Overrides of the chip.
    codes : sequence of str
        Codes to judge: ``bch8/512``, ``hamming/512``; the usual ones by default.
    years, temperature_c, reads : float
        Years between program and read, temperature in degrees Celsius during this time, and reads of the block.
    uber : float
        Uncorrectable codewords per bit read that are acceptable.

    Returns
    -------
    Ecc
        A row for each code.

    Raises
    ------
    ArgumentError
        The chip, an override or a code is wrong.

    Examples
    --------
    >>> ecc("mx30lf2g18ac").needs
    'bch4/512'
    """
    storage = {"years": years, "temperature_c": temperature_c, "reads": reads, "uber": uber}
    data = json.loads(native.advise_ecc(fspath("chip", chip), overrides(set), strings("codes", codes), storage))
    return Ecc(data, [row(CodeRow, code) for code in data["codes"]])


def card(
    name: Path,
    set: Optional[Overrides] = None,
    *,
    sizes: Sequence[int] = (4096, 32768, 131072, 1048576),
    requests: int = 500,
    seed: int = 0,
) -> CardSpeed:
    """Requests to an SD card or eMMC, empty, used and full (``floatgate speed CARD``).

    Parameters
    ----------
    name : str or path
        Name of a built-in card, or the path of a TOML file.
    set : mapping, optional
        Overrides: ``{"card.open_aus": 4}``.
    sizes : sequence of int
        Bytes of requests, multiples of 512.
    requests : int
        Maximum number of requests in a test.

    seed : int
        Seed of the card and of the order of the requests.

    Returns
    -------
    CardSpeed
        A row for each kind of request in each state.

    Raises
    ------
    ArgumentError
        The card, an override or a size is wrong.

    Examples
    --------
    >>> run = card("kingston-class-10", sizes=[4096], requests=20)
    >>> {row.state for row in run} == {"empty", "used", "full"}
    True
    """
    all_sizes = numbers("sizes", sizes)
    if not all_sizes or requests == 0:
        raise ArgumentError("there is no request to make", "give `sizes` of 512 bytes or more, and `requests` of 1 or more")
    data = json.loads(native.card_speed(fspath("name", name), overrides(set), all_sizes, requests, seed))
    return CardSpeed(data, [row(CardRow, test) for test in data["tests"]])


class Study(Result[dict[str, Any]]):
    """Result of `study`: its rows are dicts with the columns of ``--csv``."""

    def _columns(self) -> dict[str, list[Any]]:
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        return {name: [row.get(name) for row in self.rows] for name in names}


def study(name: str, **options: Any) -> Study:
    """Run a study, named by the words of its command, such as `keystore` or `card amplification`.

    Parameters
    ----------
    name : str
        Words of the command.
    **options
        Options of the command, with underscores in place of hyphens; `set` is a mapping, as in `speed`.

    Returns
    -------
    Study
        A row for each line of ``--csv``.

    Raises
    ------
    ArgumentError
        No study has this name, or the study has no such option.

    Examples
    --------
    >>> len(study("card speed", card="kingston-class-10", sizes=[4096], requests=20)) > 0
    True
    """
    if "set" in options:
        options["set"] = overrides(options["set"])
    if "setup" in options:
        options["setup"] = fspath("setup", options["setup"])
    result, rows = native.run_study(name, json.dumps(options))
    rows = json.loads(rows)
    return Study(json.loads(result), rows if isinstance(rows, list) else [rows])
