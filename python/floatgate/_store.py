"""Power cuts of a filesystem, a translation layer or a key-value store that is written in Python.

The store runs in this process on a simulated flash. A run repeats the workload from its start, loses power in a flash operation,
mounts the store again and compares its values with a reference model. For each name, the model has the value that was synchronised
last, and the values that were written since.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Literal, Optional, Protocol, TypeVar, Union

from ._arguments import Overrides, Path
from ._device import Mtd
from ._error import ArgumentError, PowerLost
from ._plot import Plotted, bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Done = TypeVar("Done")

#: Number of steps after the last power cut, and maximum number between two power cuts.
STEPS_AFTER, STEPS_BETWEEN = 3, 64

#: Number of flash calls in one call of the store after which it counts as hanging.
CALLS_MAX = 1_000_000

#: Most steps of a workload, and power cuts of a run.
STEPS_MAX, CUTS_MAX = 100_000, 16

#: Number of runs for the shortening of a failure.
SHORTENING_RUNS = 1000

#: Completed share of the flash operation when power is lost.
SHARES = {"before": 0.0, "early": 1 / 6, "middle": 1 / 2, "late": 5 / 6}

FailureKind = Literal["lost", "check", "recovery", "step", "hang"]


class Store(Protocol):
    """A program that keeps values on flash. Each boot makes a new object, because the contents of memory are lost in a power cut.

    It may also have ``remove(name)``, ``unmount()``, after which everything is synchronised, and ``check()``, which raises when an
    invariant does not hold. ``write`` may raise ``OSError`` with ``errno.ENOSPC`` when the flash is full.
    """

    def format(self) -> None:
        """Make an empty store on a new flash, and mount it."""

    def mount(self) -> None:
        """Read the contents of the flash, and repair them after a power cut."""

    def write(self, name: Any, value: bytes) -> None:
        """Set the value of a name. After a power cut it has the old value or the new one."""

    def read(self, name: Any) -> Optional[bytes]:
        """The value of a name; ``None`` if it has none."""

    def sync(self) -> None:
        """Return after all written values are on flash."""


@dataclass(frozen=True)
class Cut:
    """A loss of power.

    Attributes
    ----------
    operation : int
        Number of the program or erase in which power is lost, from 1.
    kind : str
        ``before`` the operation, or ``early``, ``middle`` or ``late`` in it.
    """

    operation: int
    kind: str

    def __str__(self) -> str:
        return f"{self.operation}.{self.kind}"


@dataclass(frozen=True)
class _History:
    """Steps of a workload, and its power cuts. The first cut is in the last step; the operations of each further one count from the
    return of power."""

    steps: tuple[int, ...]
    cuts: tuple[Cut, ...]


@dataclass(frozen=True)
class StoreFailure:
    """A failure with the shortest history that was found for it.

    Attributes
    ----------
    id : str
        Text that repeats the run: the argument `replay` of `powercut_store`.
    kind : str
        ``lost`` (a synchronised value is missing, or a value was found that was never written), ``check``, ``recovery`` or ``step``
        (the store raised), or ``hang``.
    reason : str
        Reason in words.
    history : list of str
        Steps and power cuts in their order.
    runs : int
        Number of runs that failed in this way.
    steps_before : int
        Number of steps before the history was shortened.
    repeats : bool
        False if the same run did not fail again, so that the store is not deterministic.
    """

    id: str
    kind: str
    reason: str
    history: list[str]
    runs: int
    steps_before: int
    repeats: bool


class StorePowercut(Plotted[StoreFailure]):
    """Result of `powercut_store`; one row per kind of failure."""

    @property
    def operations(self) -> int:
        """Programs and erases of the workload."""
        return int(self._data["operations"])

    @property
    def runs(self) -> int:
        """Number of runs."""
        return int(self._data["runs"])

    @property
    def cuts(self) -> int:
        """Number of power cuts."""
        return int(self._data["cuts"])

    @property
    def failed_runs(self) -> int:
        """Number of runs that failed."""
        return int(self._data["failed_runs"])

    def _title(self) -> str:
        return f"{self._data['setup']}: {self.cuts} power cuts, {self.failed_runs} of {self.runs} runs failed"

    def _draw(self, ax: Axes) -> None:
        bars(ax, [failure.kind for failure in self.rows], [failure.runs for failure in self.rows], "failed runs")


class _Gone(BaseException):
    """Power is lost. The store's handlers do not catch this exception, because no CPU continues without power."""


class _Hangs(BaseException):
    """The store calls the flash endlessly."""


class _Failed(Exception):
    def __init__(self, kind: FailureKind, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason
        #: Step of a workload without power cuts.
        self.step = 0


class _TestFlash(Mtd):
    """A flash whose loss of power ends the call of the store."""

    calls_left = CALLS_MAX

    @classmethod
    def of(cls, flash: Mtd) -> _TestFlash:
        copy = object.__new__(cls)
        copy._native, copy._name, copy.geometry = flash._native.fork(), flash._name, flash.geometry
        copy._native.count_operations()
        return copy

    def _observed(self, operation: Callable[..., Done], *arguments: Any) -> Done:
        if self.calls_left == 0:
            raise _Hangs
        self.calls_left -= 1
        try:
            return operation(*arguments)
        except PowerLost:
            raise _Gone from None

    def read(self, addr: int, length: int) -> bytes:
        return self._observed(self._native.read, addr, length)


@dataclass
class _Entry:
    """Values of a name: the one that was synchronised, and those that were written since."""

    synced: Optional[bytes]
    written: list[Optional[bytes]] = field(default_factory=list)
    #: A write failed because the flash is full.
    is_unsure: bool = False

    def allowed(self) -> list[Optional[bytes]]:
        return [self.synced, *self.written]


class _Model:
    def __init__(self, initial: Optional[bytes]) -> None:
        self._initial = initial
        self._entries: dict[Hashable, _Entry] = {}

    def _entry(self, name: Hashable) -> _Entry:
        return self._entries.setdefault(name, _Entry(self._initial))

    def write(self, name: Hashable, value: Optional[bytes]) -> None:
        self._entry(name).written.append(self._initial if value is None else value)

    def unsure(self, name: Hashable) -> None:
        self._entry(name).is_unsure = True

    def synced(self) -> None:
        for entry in self._entries.values():
            if entry.written and not entry.is_unsure:
                entry.synced, entry.written = entry.written[-1], []

    def names(self) -> list[Hashable]:
        return list(self._entries)

    def check_now(self, name: Hashable, found: Optional[bytes]) -> None:
        """Compares a value that is read without a power cut before."""
        entry = self._entry(name)
        good = entry.allowed() if entry.is_unsure else entry.allowed()[-1:]
        if found not in good:
            raise _Failed("step", f"{name!r} reads as {_shown(found)}; expected {_shown(good[-1])}, which was written")

    def check_after_cut(self, name: Hashable, found: Optional[bytes]) -> None:
        """Compares a value that is read after a power cut. This value must stay from now on."""
        entry = self._entry(name)
        if found not in entry.allowed():
            later = len(entry.written)
            more = "" if later == 0 else f", or {'the value' if later == 1 else f'one of {later} values'} written after that"
            reason = f"{name!r} has {_shown(found)}; expected {_shown(entry.synced)}, which was synchronised{more}"
            raise _Failed("lost", reason)
        self._entries[name] = _Entry(found)


def _shown(value: Optional[bytes]) -> str:
    if value is None:
        return "no value"
    more = f".. ({len(value)} bytes)" if len(value) > 24 else ""
    return f"{bytes(value[:24])!r}{more}"


@dataclass(frozen=True)
class _Workload:
    """Steps that depend only on their number and the seed."""

    seed: int
    names: Sequence[Hashable]
    bytes_least: int
    bytes_most: int

    def step(self, number: int, store: Any) -> tuple[str, Hashable, bytes]:
        random = Random((self.seed << 32) + number).random
        kind, name = random(), self.names[int(random() * len(self.names))]
        length = self.bytes_least + int(random() * (self.bytes_most - self.bytes_least + 1))
        label = f"{number}:{name}:".encode()
        value = (label * (length // len(label) + 1))[:length]
        if kind < 0.1:
            return "read", name, b""
        if kind < 0.3:
            return "sync", name, b""
        if kind < 0.4 and hasattr(store, "remove"):
            return "remove", name, b""
        if kind < 0.45 and hasattr(store, "unmount"):
            return "remount", name, b""
        return "write", name, value

    def shown(self, number: int, store: Any) -> str:
        kind, name, value = self.step(number, store)
        if kind == "write":
            return f"step {number}: write {name!r}, {len(value)} bytes"
        return f"step {number}: {kind}" + (f" {name!r}" if kind in ("read", "remove") else "")


class _Run:
    """A store between power cuts."""

    def __init__(self, subject: _Subject) -> None:
        self._subject = subject
        self._model = _Model(subject.initial)
        self.flash = _TestFlash.of(subject.flash)
        self.store: Any = self._boot("step", "format")

    def _boot(self, kind: FailureKind, how: str) -> Any:
        def work() -> Any:
            store = self._subject.make(self.flash)
            getattr(store, how)()
            return store

        return self._call(kind, work)

    def _call(self, kind: FailureKind, work: Callable[[], Done]) -> Done:
        """Calls the store. Raises if power is lost, even if the store handled the exception."""
        self.flash.calls_left = CALLS_MAX
        try:
            done = work()
        except _Failed:
            raise
        except _Hangs:
            raise _Failed("hang", f"more than {CALLS_MAX} calls of the flash in one call of the store") from None
        except Exception as error:
            if not self.flash.powered:
                raise _Gone from error
            raise _Failed(kind, f"{type(error).__name__}: {error}") from error
        if not self.flash.powered:
            raise _Gone
        return done

    def step(self, number: int) -> None:
        kind, name, value = self._subject.workload.step(number, self.store)
        store, model = self.store, self._model
        if kind == "write":
            model.write(name, value)
            self._call("step", lambda: self._write(name, value))
        elif kind == "remove":
            model.write(name, None)
            self._call("step", lambda: store.remove(name))
        elif kind == "read":
            model.check_now(name, self._call("step", lambda: store.read(name)))
        elif kind == "sync":
            self._call("step", store.sync)
            model.synced()
        else:
            self._call("step", store.unmount)
            model.synced()
            self.store = self._boot("recovery", "mount")

    def _write(self, name: Hashable, value: bytes) -> None:
        try:
            self.store.write(name, value)
        except OSError as error:
            if error.errno != errno.ENOSPC or not self.flash.powered:
                raise
            self._model.unsure(name)

    def power_returns(self, cut: Optional[Cut]) -> None:
        """Switches power on, requests the next cut, mounts the store and compares it with the model."""
        self.flash._native.restart(100_000_000)
        if cut is not None:
            self.order(cut)
        self.store = self._boot("recovery", "mount")
        store = self.store
        if hasattr(store, "check"):
            self._call("check", store.check)
        for name in self._model.names():
            self._model.check_after_cut(name, self._call("check", functools.partial(store.read, name)))

    def order(self, cut: Cut) -> None:
        self.flash.cut(cut.operation, SHARES[cut.kind])


@dataclass(frozen=True)
class _Subject:
    make: Callable[[Mtd], Any]
    flash: Mtd
    workload: _Workload
    initial: Optional[bytes]

    def rehearse(self, steps: int) -> list[int]:
        """Flash operations of each step."""
        operations: list[int] = []
        try:
            run = _Run(self)
            for number in range(steps):
                before = run.flash._native.operations()
                run.step(number)
                operations.append(run.flash._native.operations() - before)
        except _Failed as failed:
            failed.step = len(operations)
            raise
        return operations

    def run(self, history: _History) -> Optional[int]:
        """Executes a run, and returns the number of its power cuts, or ``None`` if the step has fewer operations."""
        run = _Run(self)
        for number in history.steps[:-1]:
            run.step(number)
        if not history.cuts:
            run.step(history.steps[-1])
            return 0
        run.order(history.cuts[0])
        try:
            run.step(history.steps[-1])
        except _Gone:
            return self._after_cut(run, history)
        return None

    def _after_cut(self, run: _Run, history: _History) -> int:
        cuts, next_step = 1, history.steps[-1] + 1
        while True:
            try:
                more = history.cuts[cuts] if cuts < len(history.cuts) else None
                run.power_returns(more)
                for _ in range(STEPS_AFTER if more is None else STEPS_BETWEEN):
                    run.step(next_step)
                    next_step += 1
                run.flash.cancel_cut()
                run.power_returns(None)
                return cuts
            except _Gone:
                cuts += 1


@dataclass
class _Search:
    """Looks for a shorter history with a failure of the same kind."""

    subject: _Subject
    kind: str
    runs_left: int = SHORTENING_RUNS

    def fails(self, history: _History) -> Optional[str]:
        if self.runs_left == 0:
            return None
        self.runs_left -= 1
        try:
            self.subject.run(history)
        except _Failed as failed:
            return failed.reason if failed.kind == self.kind else None
        return None

    def shortest(self, history: _History) -> tuple[_History, Optional[str]]:
        reason = self.fails(history)
        if reason is None:
            return history, None
        for count in range(1, len(history.cuts)):
            fewer = _History(history.steps, history.cuts[:count])
            found = self.fails(fewer)
            if found is not None:
                history, reason = fewer, found
                break
        size = len(history.steps) // 2
        while size > 0:
            before, at = len(history.steps), 0
            while at + 1 < len(history.steps):
                end = min(at + size, len(history.steps) - 1)
                shorter = self._somewhere(history.steps[:at] + history.steps[end:], history.cuts)
                if shorter is None:
                    at += size
                else:
                    history, reason = shorter
            if size > 1 or len(history.steps) == before:
                size //= 2
        return history, reason

    def _somewhere(self, steps: tuple[int, ...], cuts: tuple[Cut, ...]) -> Optional[tuple[_History, str]]:
        """Tries the same operation of the last step, then its first operations, which differ without the earlier steps."""
        first = cuts[0]
        for operation in dict.fromkeys([first.operation, 1, 2, 3, 4]):
            history = _History(steps, (Cut(operation, first.kind), *cuts[1:]))
            reason = self.fails(history)
            if reason is not None:
                return history, reason
        return None


def _jobs(operations: Sequence[int], cuts: Union[int, str], recovery_cuts: int, seed: int) -> Iterator[_History]:
    """The runs of an exploration, in the order of their first cuts."""
    total, kinds = sum(operations), list(SHARES)
    if cuts == "all":
        first = [Cut(operation, kind) for operation in range(1, total + 1) for kind in kinds]
    else:
        count = min(int(cuts), total * len(kinds))
        at = [1 + (2 * number + 1) * total // (2 * count) for number in range(count)]
        first = [Cut(min(operation, total), kinds[number % len(kinds)]) for number, operation in enumerate(at)]
    for number, cut in enumerate(first):
        step, left = 0, cut.operation
        while left > operations[step]:
            left -= operations[step]
            step += 1
        random = Random(((seed + 1) << 32) + number).random
        # Most recoveries take few operations, some hundreds.
        more = [Cut(1 + int(random() * (1 << int(random() * 8))), kinds[int(random() * 4)]) for _ in range(recovery_cuts)]
        yield _History(tuple(range(step + 1)), (Cut(left, cut.kind), *more))


def _steps_text(steps: Sequence[int]) -> str:
    """Numbers as ranges: ``0-3,7``."""
    ranges: list[list[int]] = []
    for step in steps:
        if ranges and ranges[-1][1] + 1 == step:
            ranges[-1][1] = step
        else:
            ranges.append([step, step])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _id(seed: int, history: _History) -> str:
    return f"store:{seed}:{_steps_text(history.steps)}:{'-'.join(map(str, history.cuts))}"


def _parsed(text: str) -> tuple[int, _History]:
    try:
        word, seed, steps, cuts = text.split(":")
        numbers: list[int] = []
        for part in steps.split(","):
            first, _, last = part.partition("-")
            if int(last or first) - int(first) >= STEPS_MAX:
                raise ValueError
            numbers.extend(range(int(first), int(last or first) + 1))
        all_cuts = tuple(Cut(int(cut.split(".")[0]), cut.split(".")[1]) for cut in cuts.split("-") if cut)
        history = _History(tuple(numbers), all_cuts)
        if word == "store" and _id(int(seed), history) == text and all(cut.kind in SHARES for cut in all_cuts):
            return int(seed), history
    except (ValueError, IndexError, AttributeError):
        pass
    raise ArgumentError(f"replay: {text!r} is not the id of a run of a store", "copy `id` of a failure whole")


def _count(name: str, value: int, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected an int, got {value!r}")
    if not least <= value <= most:
        raise ArgumentError(f"{name} is {value}", f"give {least} to {most}")
    return value


def powercut_store(
    make: Callable[[Mtd], Store],
    flash: Union[Path, Mtd],
    set: Optional[Overrides] = None,
    *,
    names: Union[int, Sequence[Hashable]] = 8,
    value_bytes: Union[int, tuple[int, int]] = (1, 64),
    initial: Optional[bytes] = None,
    steps: int = 24,
    cuts: Union[int, Literal["all"]] = 100,
    recovery_cuts: int = 1,
    seed: int = 0,
    replay: Optional[str] = None,
    progress: Optional[Callable[[int, int], None]] = None,
) -> StorePowercut:
    """Cut the power of a store written in Python at many flash operations, and compare what it keeps with a reference model.

    The store runs in this process. Each run executes the workload from its start to the cut, so a run takes as long as the
    workload. If several runs fail in the same way, the first one is shortened: steps and cuts are removed as long as it still
    fails. A workload that
    fails without a power cut is a failure of the kind ``step`` with an empty list of cuts.

    Parameters
    ----------
    make : function of a Mtd
        Function that makes the store in one boot, such as a class whose constructor takes the flash. The store has the methods of
        `Store`.
    flash : str, path or Mtd
        Name or path of a setup, or an erased flash, which is not changed. Its faults are part of each run.
    set : mapping, optional
        Overrides of the setup.
    names : int or sequence
        Number of names, ``"name-0"`` and so on, or the names: ``range(64)`` for the sectors of a translation layer.
    value_bytes : int or tuple of int
        Length of a value, or the smallest and the largest length.
    initial : bytes, optional
        Value of a name that was never written; ``None`` if such a name has no value.
    steps : int
        Steps of the workload: writes, removals, reads, synchronisations and remounts.
    cuts : int or "all"
        Number of first cuts, at equal distances and in one way each, or every operation in each of four ways.
    recovery_cuts : int
        Further cuts of each run, in the recovery and the steps after it.
    seed : int
        Seed of workload and cuts.
    replay : str, optional
        `StoreFailure.id`: repeat only this run. All other arguments must be the same.
    progress : function of two int, optional
        Called with the number of finished runs and the number of all runs.

    Returns
    -------
    StorePowercut
        The failures, one of each kind.

    Raises
    ------
    ArgumentError
        A number is out of range, the setup is wrong, or the workload writes nothing.

    Examples
    --------
    >>> class Log:
    ...     # One record a page: length and value. The name is the block.
    ...     def __init__(self, flash):
    ...         self.flash, self.page = flash, flash.geometry.write_bytes
    ...     def format(self):
    ...         pass
    ...     def mount(self):
    ...         pass
    ...     def _pages(self, name):
    ...         start = name * self.flash.geometry.erase_bytes
    ...         for at in range(start, start + self.flash.geometry.erase_bytes, self.page):
    ...             yield at, self.flash.read(at, self.page)
    ...     def write(self, name, value):
    ...         free = next(at for at, page in self._pages(name) if page[0] == 255)
    ...         self.flash.write(free, bytes([len(value)]) + value + b"\\xff" * (self.page - 1 - len(value)))
    ...     def read(self, name):
    ...         pages = [page for _, page in self._pages(name) if page[0] != 255]
    ...         return pages[-1][1 : 1 + pages[-1][0]] if pages else None
    ...     def sync(self):
    ...         pass
    >>> result = powercut_store(Log, "am62a-w35n01jw", names=range(2), steps=6, cuts=12)
    >>> [failure.kind for failure in result]  # a page that was half programmed is no record
    ['check']
    """
    low, high = value_bytes if isinstance(value_bytes, tuple) else (value_bytes, value_bytes)
    _count("value_bytes", low, 0, 1 << 20)
    _count("value_bytes", high, low, 1 << 20)
    _count("steps", steps, 1, STEPS_MAX)
    _count("recovery_cuts", recovery_cuts, 0, CUTS_MAX - 1)
    if cuts != "all":
        _count("cuts", cuts, 1, 10_000_000)
    seed, history = (_count("seed", seed, 0, 2**64 - 1), None) if replay is None else _parsed(replay)
    all_names = [f"name-{number}" for number in range(_count("names", names, 1, 1_000_000))] if isinstance(names, int) else list(names)
    if not all_names:
        raise ArgumentError("names: there are none", "give a number or some names")
    base = flash if isinstance(flash, Mtd) else Mtd(flash, set)
    subject = _Subject(make, base, _Workload(seed, all_names, low, high), initial)
    outcome = _explored(subject, steps, cuts, recovery_cuts, progress) if history is None else _replayed(subject, history)
    failures = outcome.pop("found")
    data = {"setup": base._name, "seed": seed, "steps": steps, **outcome, "failures": [asdict(failure) for failure in failures]}
    return StorePowercut(data, failures)


def _failure(subject: _Subject, history: _History, failed: _Failed, runs: int, before: int, repeats: bool) -> StoreFailure:
    store = subject.make(_TestFlash.of(subject.flash))
    shown = [subject.workload.shown(number, store) for number in history.steps]
    for number, cut in enumerate(history.cuts):
        counted = "of it" if number == 0 else "after power returned"
        shown.append(f"power cut {'before' if cut.kind == 'before' else f'{cut.kind} in'} operation {cut.operation} {counted}")
    return StoreFailure(_id(subject.workload.seed, history), failed.kind, failed.reason, shown, runs, before, repeats)


def _replayed(subject: _Subject, history: _History) -> dict[str, Any]:
    outcome: dict[str, Any] = {"operations": 0, "runs": 1, "cuts": 0, "failed_runs": 0, "found": []}
    try:
        done = subject.run(history)
    except _Failed as failed:
        found = _failure(subject, history, failed, 1, len(history.steps), True)
        return {**outcome, "cuts": min(len(history.cuts), 1), "failed_runs": 1, "found": [found]}
    if done is None:
        raise ArgumentError("replay: the last step has fewer flash operations than the cut needs", "repeat it with the same store and arguments")
    return {**outcome, "cuts": done}


def _explored(
    subject: _Subject,
    steps: int,
    cuts: Union[int, str],
    recovery_cuts: int,
    progress: Optional[Callable[[int, int], None]],
) -> dict[str, Any]:
    try:
        operations = subject.rehearse(steps)
    except _Failed as failed:
        history = _History(tuple(range(failed.step + 1)), ())
        found = _failure(subject, history, failed, 1, steps, True)
        return {"operations": 0, "runs": 1, "cuts": 0, "failed_runs": 1, "found": [found]}
    if sum(operations) == 0:
        raise ArgumentError("the workload neither programs nor erases the flash", "give more `steps`, or let `sync` write")
    jobs = list(_jobs(operations, cuts, recovery_cuts, subject.workload.seed))
    done, failed_runs = 0, 0
    first: dict[str, tuple[_History, _Failed, int]] = {}
    for number, job in enumerate(jobs):
        try:
            done += subject.run(job) or 0
        except _Failed as failed:
            failed_runs += 1
            done += 1
            history, kept, runs = first.get(failed.kind, (job, failed, 0))
            first[failed.kind] = (history, kept, runs + 1)
        if progress is not None:
            progress(number + 1, len(jobs))
    failures: list[StoreFailure] = []
    for kind, (history, kept, runs) in sorted(first.items()):
        shorter, reason = _Search(subject, kind).shortest(history)
        shortened = _Failed(kept.kind, reason or kept.reason)
        failures.append(_failure(subject, shorter, shortened, runs, len(history.steps), reason is not None))
    return {"operations": sum(operations), "runs": len(jobs), "cuts": done, "failed_runs": failed_runs, "found": failures}
