"""Studies of devices and boards that were measured: `probe`, `advise` and `fit`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _floatgate as native
from ._arguments import Overrides, Path, fspath, overrides, strings
from ._error import ArgumentError, Error, MissingFile
from ._plot import Plotted, bars
from ._result import Result, row
from ._types import CardState

#: Largest file of results; the native module refuses more.
RESULTS_MAX_BYTES = 16 << 20

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Answer:
    """Answer of a probe to one question.

    Attributes
    ----------
    question : str
        ``erase_block``, ``page``, ``open_aus_linear``, ``capacity``, ``fake`` and so on.
    value : int, float, str or None
        The answer in `unit`; ``None`` if nothing is visible.
    unit : str
        ``B``, ``AUs``, ``us``, ``MB/s`` or nothing.
    confidence : float
        Probability that the answer is right.
    alternatives : list of dict
        Other values with their probabilities.
    reason : str
        Reason in words.
    """

    question: str
    value: Union[int, float, str, None]
    unit: str
    confidence: float
    alternatives: list[dict[str, Any]]
    reason: str


class Probe(Plotted[Answer]):
    """Result of `probe`; one row a question."""

    @property
    def target(self) -> str:
        """The card, device or file."""
        return str(self._data["target"])

    @property
    def capacity_bytes(self) -> int:
        """Claimed size in bytes; the real size is the answer to ``capacity``."""
        return int(self._data["capacity_bytes"])

    def __getitem__(self, question: str) -> Answer:
        """The answer to a question."""
        return self._find("question", question)

    def __contains__(self, question: object) -> bool:
        """True if there is an answer to the question."""
        return any(question in (answer.question, answer) for answer in self.rows)

    def _title(self) -> str:
        return self.target

    def _draw(self, ax: Axes) -> None:
        names = [f"{answer.question}: {_shown(answer)}" for answer in self.rows]
        bars(ax, names, [answer.confidence for answer in self.rows], "confidence")
        ax.set_xlim(0, 1)


def _shown(answer: Answer) -> str:
    return "?" if answer.value is None else f"{answer.value} {answer.unit}".strip()


@dataclass(frozen=True)
class FitRow:
    """A measured figure beside the simulated one.

    Attributes
    ----------
    line : int
        Line in the results, from 1.
    name, measured : str
        Name of the test, and the figure as printed.
    set : list of str
        Overrides under which it was measured.
    ns_per_byte, fitted_ns_per_byte : float
        Time of the board, and of the fitted setup, in ns per byte.
    residual, residual_before : float
        Simulated time divided by measured time, minus 1, with the fitted costs and with the costs of the setup.
    left_out : float or None
        Residual of a fit without this figure.
    fitted : bool
        False if the figure depends on no fitted number.
    """

    line: int
    name: str
    measured: str
    set: list[str]
    ns_per_byte: float
    fitted_ns_per_byte: float
    residual: float
    residual_before: float
    left_out: Optional[float]
    fitted: bool


class Fit(Plotted[FitRow]):
    """Result of `fit`; one row a measured figure."""

    #: The fitted setup, as a file for `speed` and the command.
    toml: str

    def __getitem__(self, name: str) -> FitRow:
        """The first figure of a test."""
        return self._find("name", name)

    def __contains__(self, name: object) -> bool:
        """True if there is a figure of the test."""
        return any(name in (figure.name, figure) for figure in self.rows)

    @property
    def parameters(self) -> list[dict[str, Any]]:
        """Costs of host and controller: ``path``, ``before``, ``value``, and the interval ``low`` to ``high``."""
        return list(self._data["parameters"])

    @property
    def hypotheses(self) -> list[dict[str, Any]]:
        """Possible errors of the board: ``what``, the overrides ``set``, and the worst residual with these overrides."""
        return list(self._data["hypotheses"])

    @property
    def unknown(self) -> list[dict[str, Any]]:
        """Lines that were not understood, with the reasons."""
        return list(self._data["unknown"])

    def _draw(self, ax: Axes) -> None:
        names = [f"{figure.name}, {figure.measured}" for figure in self.rows]
        bars(ax, names, [100 * figure.residual for figure in self.rows], "simulated over measured time, minus 1, in %")


def probe(
    target: Path,
    set: Optional[Overrides] = None,
    *,
    write: bool = False,
    noise: float = 1.0,
    seed: int = 0,
) -> Probe:
    """Measure an unknown card or drive: allocation unit, page, open allocation units, caches, real size.

    Parameters
    ----------
    target : str or path
        Name of a built-in card, or the path of its TOML file: the card is simulated. A block device or a file is only read.
    set : mapping, optional
        Overrides of a simulated card.
    write : bool
        Also run write tests, on a simulated card.
    noise : float
        Jitter of a simulated card: 1 as on real cards, 0 for none.
    seed : int
        Seed of the order of the requests, and of a simulated card.

    Returns
    -------
    Probe
        A row for each question.

    Raises
    ------
    ArgumentError
        The target is neither a card nor a device, or it is in use.

    Examples
    --------
    >>> answers = probe("fake-wraps-32g", write=True)
    >>> answers["fake"].value
    'wraps'
    """
    name = fspath("target", target)
    if not os.path.exists(name) or name.endswith(".toml"):
        data = json.loads(native.probe_card(name, overrides(set), write, noise, seed))
    elif write or set:
        raise ArgumentError(
            f"{name}: a device or a file is only read here, and has no settings",
            "`floatgate probe --write` says what it overwrites, asks before, and restores it",
        )
    else:
        data = json.loads(native.probe_device(name, seed))
    answers = data["answers"].items()
    return Probe(data, [row(Answer, {"question": question, **answer}) for question, answer in answers])


@dataclass(frozen=True)
class Point:
    """Advice on one question.

    Attributes
    ----------
    topic : str
        ``partition start``, ``filesystem`` and so on.
    advice : str
        The advice in a sentence.
    commands : list of str
        Shell commands and kernel parameters for it.
    rests_on : list of str
        Numbers on which it is based.
    would_change : list of str
        Findings that would change it.
    """

    topic: str
    advice: str
    commands: list[str]
    rests_on: list[str]
    would_change: list[str]


class Advice(Result[Point]):
    """Result of `advise`; one row a question."""

    @property
    def title(self) -> str:
        """Description of the target in one line."""
        return str(self._data["title"])


def advise(
    target: Union[Path, Probe],
    set: Optional[Overrides] = None,
    *,
    filesystems: Sequence[str] = (),
    workloads: Sequence[str] = (),
    state: CardState = "empty",
    write_bytes_per_day: Optional[int] = None,
    partition_bytes: Optional[int] = None,
    years: float = 10.0,
    temperature_c: float = 40.0,
    seed: int = 0,
) -> Advice:
    """Advise how to use a card or a chip: partition, filesystem, mkfs and mount options, speed and life.

    Parameters
    ----------
    target : str, path or Probe
        Name of a built-in card, setup or raw flash part, the path of a setup's TOML file, or a result of `probe`.
    set : mapping, optional
        Overrides, not for a `Probe`.
    filesystems, workloads : sequence of str
        Filesystems and workloads to consider on cards, by default all: ``["ext4", "f2fs"]``, ``["create"]``.
    state : str
        State of a card at the beginning: ``"empty"``, ``"used"`` or ``"full"``.
    write_bytes_per_day : int, optional
        Bytes written in a day; by default 1 GiB to a card and 10 MiB to a chip.
    partition_bytes : int, optional
        Size of the partition on raw flash.
    years, temperature_c : float
        Years that data on raw flash must last, and its temperature in degrees Celsius.
    seed : int
        Seed of chips and cards.

    Returns
    -------
    Advice
        A row for each question.

    Raises
    ------
    ArgumentError
        The target is unknown, or a filesystem, workload or state has another name.

    Examples
    --------
    >>> [point.topic for point in advise("kingston-class-10")][:2]
    ['partition start', 'filesystem']
    """
    probed = json.dumps(target.to_dict()) if isinstance(target, Probe) else None
    if probed is not None and set:
        raise ArgumentError("a probe is measured, not simulated", "leave set out, or name a card of the catalogue")
    name = target.target if isinstance(target, Probe) else fspath("target", target)
    args = {
        "filesystems": strings("filesystems", filesystems),
        "workloads": strings("workloads", workloads),
        "state": state,
        "write_bytes_per_day": write_bytes_per_day,
        "partition_bytes": partition_bytes,
        "years": years,
        "temperature_c": temperature_c,
        "seed": seed,
    }
    data = json.loads(native.advise_on(name, probed, overrides(set), args))
    return Advice(data, [row(Point, point) for point in data["points"]])


def _results(results: Union[Path, bytes]) -> Any:
    """Text of the results, which can be in a file."""
    if isinstance(results, str) and len(results.split()) != 1 and ("\n" in results or not os.path.exists(results)):
        return results.encode()
    if not isinstance(results, (str, os.PathLike)):
        return results
    path = os.fspath(results)
    help = "name a text file with what flash_speed, dd or U-Boot printed, or give the text itself"
    try:
        with open(path, "rb") as file:
            return file.read(RESULTS_MAX_BYTES + 1)
    except FileNotFoundError:
        raise MissingFile(f"{path}: there is no such file", help) from None
    except OSError as error:
        raise Error(f"{path}: {error.strerror or error}", help) from None


def fit(
    setup: Path,
    results: Union[Path, bytes],
    set: Optional[Overrides] = None,
    *,
    free: Sequence[str] = (),
) -> Fit:
    """Fit the costs of host and controller to figures measured on a board.

    Parameters
    ----------
    setup, set
        As for `speed`.
    results : str, bytes or path
        Output of ``flash_speed``, ``dd`` or U-Boot, or lines such as ``page read 227 us``. This is the text itself, or the path of
        a file with it. A `str` of one word, or of one line that is the name of a file, is a path.
    free : sequence of str
        Further numbers of the setup to fit: ``"chip.timing.t_prog_us.typ"``.

    Returns
    -------
    Fit
        A row for each measured figure.

    Raises
    ------
    ArgumentError
        No figure was found in the results, or the setup is wrong.
    MissingFile
        The file of the results does not exist.

    Examples
    --------
    >>> fit("imx6-mx30lf2g18ac", "page read 227 us")["page read"].fitted
    True
    >>> fit("imx6-mx30lf2g18ac", "flash_speed.txt")  # doctest: +SKIP
    """
    name = fspath("setup", setup)
    is_file = "/" in name or name.endswith(".toml")
    text = _results(results)
    base = os.path.abspath(name) if is_file else name
    printed, toml = native.fit_results(name, overrides(set), text, strings("free", free), base)
    data = json.loads(printed)
    fitted = Fit(data, [row(FitRow, figure) for figure in data["rows"]])
    fitted.toml = toml
    return fitted
