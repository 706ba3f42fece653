"""Many designs of one setup, here or on any executor."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from . import _floatgate as native
from ._arguments import Overrides, Path, named, override
from ._error import Error
from ._result import Tabular
from ._studies import tests

#: Tests that a sweep measures by default: those with a column of their own in ``floatgate speed --sweep``.
MEASURES = ("page read", "eraseblock read", "page write", "eraseblock write", "erase")

#: Chunks that wait or run at any time on an executor: two for each of 128 workers, and no burden for memory.
IN_FLIGHT = 256

#: Overrides of one design; numpy's scalars are values, too.
Design = Mapping[str, Any]

Space = Union[Mapping[str, Iterable[Any]], Iterable[Design]]


class Table(Tabular):
    """Result of `sweep`: one row a design, in the order of the space.

    Its columns are the keys of the space; for each test ``"<test> KiB/s"``, or ``"<test> ms"`` where no bytes are moved; ``reads``
    and ``writes``, the operations and clocks that the driver chose; ``not given``, requests that could not be met; and
    ``refused``, the reason for which a design cannot be, or ``None``.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._data = {name: list(column) for name, column in columns.items()}

    def _columns(self) -> dict[str, list[Any]]:
        return self._data

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._data)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows, each a dict by column."""
        return list(self)

    def __getitem__(self, column: str) -> list[Any]:
        """A column by name."""
        return self._data[column]

    def __len__(self) -> int:
        return len(self._data["refused"])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self._data, values)) for values in zip(*self._data.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._data == other._data

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Table of {len(self)} designs: {', '.join(self._data)}>"

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns by name."""
        return {name: list(column) for name, column in self._data.items()}

    def to_parquet(self, path: Path) -> None:
        """Write the rows to a Parquet file. Needs pandas and pyarrow.

        Equal tables give equal bytes.
        """
        self.to_pandas().to_parquet(path, index=False)


def sweep(
    setup: Path,
    space: Space,
    measure: Optional[Union[str, Sequence[str]]] = None,
    executor: Any = None,
    *,
    set: Optional[Overrides] = None,
    chunk: int = 1000,
    corner: str = "typ",
    seed: int = 0,
    bad_blocks: int = 0,
    first_block: int = 0,
    blocks: int = 1,
    pages: Sequence[int] = (),
) -> Table:
    """Measure every design of a space.

    Parameters
    ----------
    setup : str or path
        Name of a built-in setup, or the path of a TOML file that all workers can read.
    space : mapping of str to iterable, or iterable of mappings
        A grid, ``{"bus.mode": ["1S-1S-8S", "1S-8S-8S"], "bus.clock_hz": [25e6, 50e6]}``, of which the last key changes fastest;
        or the designs themselves, ``[{"bus.mode": "1S-1S-8S"}, ...]``.
    measure : str or sequence of str, optional
        Tests: ``"page read"``, ``"8 page read"``, ``"erase"`` and the like; by default pages and eraseblocks read and
        written, and erases. One test alone takes the least time.
    executor : optional
        A ``concurrent.futures.Executor`` or a ``dask.distributed.Client``; all cores of this machine by default.
    set : mapping, optional
        Overrides of all designs.
    chunk : int
        Designs of a task. The result is the same with any number.
    blocks : int
        Eraseblocks of a test. One is enough where pages are alike; ``blocks=10`` measures as `speed` does.
    corner, seed, bad_blocks, first_block, pages
        As for `speed`.

    Returns
    -------
    Table
        One row a design.

    Raises
    ------
    Error
        A key or name is unknown, or all designs are refused.
    """
    if chunk < 1:
        raise Error(f"a chunk of {chunk} designs", "give `chunk` of 1 or more")
    measures = [measure] if isinstance(measure, str) else list(MEASURES if measure is None else measure)
    if not measures:
        raise Error("there is nothing to measure", 'give `measure` such as "page read"')
    units = [int(name.split(" page ")[0]) for name in measures if name.split(" page ")[0].isdigit()]
    only = measures[0] if len(measures) == 1 else None
    task = (
        named(setup, set, corner=corner, seed=seed, bad_blocks=bad_blocks),
        tests(first_block=first_block, blocks=blocks, pages=[*pages, *units], only=only),
        measures,
    )
    keys: dict[str, list[Any]] = {}
    figures: dict[str, list[Any]] = {}
    done = 0
    for part, columns in _measured(task, _chunks(_designs(space), chunk), executor):
        _append(keys, {key: [design.get(key) for design in part] for design in part for key in design}, done, len(part))
        _append(figures, columns, done, len(part))
        done += len(part)
    if done == 0:
        raise Error("the space has no design", "give each key one value or more")
    refused = figures["refused"]
    if None not in refused:
        raise Error(refused[0], "all designs are refused, this is the first")
    texts = {name: figures.pop(name) for name in ("reads", "writes", "not given", "refused")}
    clash = [name for name in keys if name in figures or name in texts]
    if clash:
        raise Error(f"{clash[0]!r} is the name of a measure, not of a key")
    return Table({**keys, **figures, **texts})


def _designs(space: Space) -> Iterator[Design]:
    """The designs of a space, one after the other."""
    if not isinstance(space, Mapping):
        return iter(space)
    values = [[axis] if isinstance(axis, (str, int, float)) else list(axis) for axis in space.values()]
    return (dict(zip(space, design)) for design in itertools.product(*values))


def _chunks(designs: Iterator[Design], size: int) -> Iterator[list[Design]]:
    while part := list(itertools.islice(designs, size)):
        yield part


Task = tuple[dict[str, Any], dict[str, Any], list[str]]


def _measure(task: Task, designs: list[list[str]], parallel: bool = False) -> dict[str, list[Any]]:
    """Columns of a chunk. Runs on a worker."""
    of, chosen, measures = task
    columns = native.measure_designs(of, chosen, designs, parallel)
    wanted = {f"{name} {unit}" for name in measures for unit in ("KiB/s", "ms")}
    wanted |= {"reads", "writes", "not given", "refused"}
    return {name: column for name, column in columns.items() if name in wanted}


def _measured(
    task: Task,
    parts: Iterator[list[Design]],
    executor: Any,
) -> Iterator[tuple[list[Design], dict[str, list[Any]]]]:
    """Chunks with their columns, in order."""
    texts = ((part, [[override(*item) for item in design.items()] for design in part]) for part in parts)
    if executor is None:
        for part, designs in texts:
            yield part, _measure(task, designs, parallel=True)
        return
    # A client of Dask hands out an executor.
    executor = executor.get_executor() if hasattr(executor, "get_executor") else executor
    running: collections.deque[tuple[list[Design], Any]] = collections.deque()
    try:
        for part, designs in texts:
            running.append((part, executor.submit(_measure, task, designs)))
            if len(running) >= IN_FLIGHT:
                first, future = running.popleft()
                yield first, future.result()
        while running:
            first, future = running.popleft()
            yield first, future.result()
    finally:
        for _, future in running:
            future.cancel()


def _append(columns: dict[str, list[Any]], more: Mapping[str, list[Any]], done: int, count: int) -> None:
    """Add `count` rows to columns of `done` rows; a column that one side lacks is ``None`` there."""
    for name in more:
        columns.setdefault(name, [None] * done)
    for name, column in columns.items():
        column.extend(more.get(name, [None] * count))
