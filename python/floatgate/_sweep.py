"""Many designs of one setup, here or on any executor."""

from __future__ import annotations

import collections
import functools
import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from . import _floatgate as native
from ._arguments import Overrides, Path, fspath, override, overrides, strings
from ._error import Error
from ._result import Tabular

#: Measurements, as ``measure`` of a specification names them.
KINDS = ("speed", "fs", "age", "endurance", "powercut", "card")

#: Designs of a task; a design of the others takes seconds.
CHUNKS = {"speed": 1000, "endurance": 16}

#: Chunks that wait or run at any time on an executor: two for each of 128 workers, and no burden for memory.
IN_FLIGHT = 256

#: Overrides of one design; numpy's scalars are values, too.
Design = Mapping[str, Any]

Space = Union[Mapping[str, Iterable[Any]], Iterable[Design]]


class Table(Tabular):
    """Result of `sweep`: one row a design, in the order of the space.

    Its columns are the keys of the space; for each test ``"<test> KiB/s"``, or ``"<test> ms"`` where no bytes are moved; ``reads``
    and ``writes``, the operations and clocks that the driver chose; ``not given``, requests that could not be met;
    ``feasible`` (all constraints hold), ``pareto`` (no feasible design is better in one objective and as good in the others); and
    ``refused``, the reason for which a design cannot be had or the condition of the screen that it missed, or ``None``.

    Rows stay in a file until they are asked for.
    """

    def __init__(self, results: native.NativeSweep) -> None:
        self._results = results

    @functools.cached_property
    def _typed(self) -> Mapping[str, tuple[str, list[Any]]]:
        """Arrow type and values of each column."""
        return self._results.columns()

    @functools.cached_property
    def _data(self) -> dict[str, list[Any]]:
        return {name: values for name, (_, values) in self._typed.items()}

    def __reduce__(self) -> tuple[Any, tuple[str, list[str]]]:
        """A pickle has the specification and all that was measured."""
        return _of_pickle, self._results.state()

    def _columns(self) -> dict[str, list[Any]]:
        return self._data

    def _types(self) -> dict[str, str]:
        return {name: of for name, (of, _) in self._typed.items()}

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._data)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows, each a dict by column."""
        return list(self)

    @property
    def feasible(self) -> int:
        """Number of designs that are not refused and meet all constraints."""
        return self._results.counts()[0]

    @property
    def refused(self) -> int:
        """Number of designs that cannot be had; their reasons are in the column ``refused``."""
        return self._results.counts()[1]

    @property
    def screened(self) -> int:
        """Number of designs that missed a condition of the screen; which one is in the column ``refused``."""
        return self._results.counts()[2]

    @property
    def pareto(self) -> list[dict[str, Any]]:
        """The rows on the Pareto front of the objectives."""
        return [row for row in self if row["pareto"]]

    @property
    def sensitivity(self) -> list[dict[str, Any]]:
        """Share of each objective's variance that follows from each key alone, 0 to 1 (first-order Sobol index).

        Dicts with ``objective``, ``key`` and ``share``, the largest share of each objective first, and what is left in the last one, of which
        the key is ``interactions and rest``. The shares of an objective add up to 1.
        """
        found: list[dict[str, Any]] = json.loads(self._results.sensitivity())
        return found

    def __getitem__(self, column: str) -> list[Any]:
        """A column by name."""
        return self._data[column]

    def __contains__(self, column: object) -> bool:
        """True where there is a column of that name."""
        return column in self._data

    def __len__(self) -> int:
        return self._results.done()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self._data, values)) for values in zip(*self._data.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._data == other._data

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Table of {len(self)} designs>"

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns by name."""
        return {name: list(column) for name, column in self._data.items()}

    def write(self, path: Path) -> None:
        """Write the rows to a file: CSV, JSON or Parquet by its extension.

        Equal tables give equal bytes; those of CSV and JSON are the bytes of ``floatgate sweep``. Parquet needs pyarrow.
        """
        path = fspath("path", path)
        if path.endswith(".parquet"):
            _write_parquet(self._results, path)
        else:
            self._results.write(path)

    def to_parquet(self, path: Path) -> None:
        """As `write`, to a name that ends in ``.parquet``."""
        if not fspath("path", path).endswith(".parquet"):
            raise Error(f"{path}: Parquet ends in .parquet", "name such a file, or use `write`")
        self.write(path)


def _of_pickle(spec: str, batches: list[str]) -> Table:
    return Table(native.NativeSweep.of_state(spec, batches))


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise Error("Parquet needs pyarrow", "`pip install pyarrow`, or write CSV or JSON") from None
    return pyarrow


def _write_parquet(results: native.NativeSweep, path: str) -> None:
    """Write the rows to a Parquet file, page by page. A file of that name is replaced when all of them are written."""
    arrow = _pyarrow()
    # Before the pages, which hold the results.
    facts = results.facts()

    def table(page: Mapping[str, tuple[str, list[Any]]]) -> Any:
        return arrow.table({name: arrow.array(values, of) for name, (of, values) in page.items()})

    directory, name = os.path.split(path)
    try:
        with tempfile.NamedTemporaryFile(dir=directory or ".", prefix=f".{name}.", delete=False) as file:
            try:
                writer: Any = None

                def write(page: Mapping[str, tuple[str, list[Any]]]) -> None:
                    nonlocal writer
                    rows = table(page)
                    if writer is None:
                        schema = rows.schema.with_metadata({"floatgate": facts})
                        writer = arrow.parquet.ParquetWriter(file, schema, compression="snappy")
                    writer.write_table(rows.cast(writer.schema))

                results.each_page(write)
                writer.close()
                os.chmod(file.name, 0o666 & ~_umask())
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise Error(f"{path}: {error.strerror or error}", "name another output") from None


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def sweep(
    setup: Path,
    space: Space,
    measure: Union[str, Sequence[str]] = "speed",
    executor: Any = None,
    *,
    set: Optional[Overrides] = None,
    tests: Union[str, Sequence[str]] = (),
    options: Optional[Mapping[str, Any]] = None,
    sample: Optional[Mapping[str, int]] = None,
    population: Optional[Mapping[str, Any]] = None,
    screen: Union[str, Sequence[str]] = (),
    constraints: Union[str, Sequence[str]] = (),
    maximise: Union[str, Sequence[str]] = (),
    minimise: Union[str, Sequence[str]] = (),
    output: Optional[Path] = None,
    checkpoint: Optional[Path] = None,
    chunk: Optional[int] = None,
    seed: int = 0,
    **more_options: Any,
) -> Table:
    """Measure every design of a space. ``floatgate sweep`` does the same, with a file in place of the arguments.

    Parameters
    ----------
    setup : str or path
        Name of a built-in setup, or the path of a TOML file that all workers can read. For ``"endurance"`` a part, for
        ``"card"`` a card.
    space : mapping of str to iterable, or iterable of mappings
        A grid, ``{"bus.mode": ["1S-1S-8S", "1S-8S-8S"], "bus.clock_hz": [25e6, 50e6]}``, of which the last key changes fastest;
        or the designs themselves, ``[{"bus.mode": "1S-1S-8S"}, ...]``. With `sample` a key may have a range,
        ``{"from": 10e6, "to": 50e6}``. The key ``"setup"`` names another setup, ``"options.years"`` an option of the measurement.
    measure : str or sequence of str
        ``"speed"``, ``"fs"`` (`speed` of a filesystem), ``"age"``, ``"endurance"``, ``"powercut"`` or ``"card"``;
        or tests of ``speed``, such as ``"page read"``.
    executor : optional
        A ``concurrent.futures.Executor`` or a ``dask.distributed.Client``; all cores of this machine by default.
    set : mapping, optional
        Overrides of all designs.
    tests : str or sequence of str
        Tests that become columns: ``"page read"``, ``"8 page read"``, ``"erase"`` and the like, or ``"all"``; by default pages and
        eraseblocks read and written, and erases. One test alone takes the least time.
    options : mapping, optional
        Options of the measurement (docs/scale.md): ``{"blocks": 10}``, ``{"years": 10}``. They may be given as arguments, too.
    sample : mapping, optional
        ``{"random": 1000, "seed": 1}`` or ``{"latin_hypercube": 1000}`` draws designs from the space.
    population : mapping, optional
        ``{"members": 100, "least": 8, "vary": {...}, "stop": {"column": "survived", "width": 0.1}}`` measures many chips of
        each design: figures are means, with ends of a 95 % interval (``"<figure> low"``, ``"<figure> high"``).
    screen : str or sequence of str
        Conditions on ``speed``, ``"page read KiB/s > 5000"``, that are measured first: what misses one is not measured further.
    constraints : str or sequence of str
        Conditions on figures or keys.
    maximise, minimise : str or sequence of str
        Columns of which more or less is better.
    output : path, optional
        File to write: CSV, JSON or Parquet by its extension.
    checkpoint : path, optional
        File that keeps what is measured; the same sweep goes on from it.
    chunk : int, optional
        Designs of a task. The result is the same with any number.
    seed : int
        Seed of the chip; of a population, of its first member.

    Returns
    -------
    Table
        One row a design.

    Raises
    ------
    Error
        A key or name is unknown, or all designs are refused. One that is refused or screened out is a row.
    TypeError
        An argument is of another type.
    """
    if chunk is not None and not isinstance(chunk, int):
        raise TypeError(f"chunk: expected an int, got {chunk!r}")
    if chunk is not None and chunk < 1:
        raise Error(f"a chunk of {chunk} designs", "give `chunk` of 1 or more")
    works = hasattr(executor, "submit") or hasattr(executor, "get_executor")
    if executor is not None and (isinstance(executor, type) or not works):
        raise TypeError(f"executor: expected a concurrent.futures.Executor or a client of Dask, got {executor!r}")
    kind = measure if isinstance(measure, str) and measure in KINDS else "speed"
    named_tests = strings("tests", tests)
    if kind != measure:
        named_tests += strings("measure", measure)
        if not named_tests:
            raise Error("there is nothing to measure", f'give `measure`: one of {", ".join(KINDS)}, or a test such as "page read"')
    output = None if output is None else fspath("output", output)
    checkpoint = None if checkpoint is None else fspath("checkpoint", checkpoint)
    if output is not None and output.endswith(".parquet"):
        _pyarrow()
    if output is not None and checkpoint is not None and os.path.realpath(output) == os.path.realpath(checkpoint):
        raise Error(f"{checkpoint}: the output would replace the checkpoint", "name two files")
    spec = {
        "setup": fspath("setup", setup),
        "set": overrides(set),
        "measure": kind,
        "tests": named_tests,
        "options": _plain("options", {**_mapping("options", options or {}), **more_options}),
        "seed": _plain("seed", seed),
        "screen": strings("screen", screen),
        "constraints": strings("constraints", constraints),
        "objectives": {"maximise": strings("maximise", maximise), "minimise": strings("minimise", minimise)},
        **_space(space),
        **({"sample": _plain("sample", _mapping("sample", sample))} if sample is not None else {}),
        **({"population": _population(population)} if population is not None else {}),
    }
    results = native.NativeSweep(json.dumps(spec), checkpoint, output)
    size = chunk or CHUNKS.get(kind, 1)
    try:
        if executor is None:
            cores = os.cpu_count() or 1
            while results.measure(size if chunk or kind == "speed" else size * cores):
                pass
        else:
            _spread(results, executor, size)
    finally:
        results.close()
    results.check_measured()
    table = Table(results)
    if output is not None:
        table.write(output)
    return table


def _mapping(argument: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{argument}: expected a mapping, got {value!r}")
    return value


def _plain(name: str, value: Any) -> Any:
    """A value as JSON has it; `name` is that of the argument. Arrays and scalars of numpy have theirs in tolist()."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        return {key: _plain(f"{name}.{key}", one) for key, one in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [_plain(name, one) for one in value]
    if isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, float):
        raise Error(f"{name}: {value!r} is no value", "give a finite number")
    raise TypeError(f"{name}: expected a str, a bool, an int, a float, or a list or dict of these, got {value!r}")


def _axis(argument: str, key: str, values: Any) -> Any:
    if isinstance(values, Mapping):
        return {end: _end(key, end, value) for end, value in values.items()}
    if isinstance(values, range) and values and values.step > 0:
        return {end: _end(key, end, value) for end, value in (("from", values[0]), ("to", values[-1]), ("step", values.step))}
    if not isinstance(values, (str, int, float, Iterable)):
        raise TypeError(f"{argument}: {key}: expected values or a range such as {{'from': 1, 'to': 9}}, got {values!r}")
    all_values = enumerate([values] if isinstance(values, (str, int, float)) else values)
    return [_value(argument, f"{argument}: {key}[{number}]", key, value) for number, value in all_values]


def _end(key: str, end: str, value: Any) -> Any:
    """The end of a range, of which very large ones are no integers any more."""
    value = _plain(f"{key}.{end}", value)
    if isinstance(value, int) and not _has_64_bits(value):
        raise ValueError(f"{key}.{end}: {value} is beyond 64 bits: write it as a float")
    return value


def _value(argument: str, place: str, key: str, value: Any) -> Any:
    value = _plain(place, value)
    override(argument, key, value)
    # What TOML has no number for is told by the setup, which refuses the design.
    return value if not isinstance(value, int) or _has_64_bits(value) else str(value)


def _has_64_bits(value: int) -> bool:
    return -(2**63) <= value < 2**63


def _space(space: Space) -> dict[str, Any]:
    if isinstance(space, Mapping):
        return {"space": {key: _axis("space", key, values) for key, values in space.items()}}
    designs = list(space) if isinstance(space, Iterable) else [space]
    if wrong := [design for design in designs if not isinstance(design, Mapping)]:
        help = "; rows of a DataFrame are `frame.to_dict('records')`" if hasattr(space, "to_dict") else ""
        raise TypeError(f"space: expected a mapping of keys to values, or mappings, one a design, got {wrong[0]!r}{help}")
    return {"designs": [_design(f"space[{number}]", design) for number, design in enumerate(designs)]}


def _design(place: str, design: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _value("space", f"{place}: {key}", key, value) for key, value in design.items()}


def _population(population: Mapping[str, Any]) -> dict[str, Any]:
    vary = _mapping("population.vary", _mapping("population", population).get("vary", {}))
    axes = {key: _axis("population.vary", key, values) for key, values in vary.items()}
    return {**_plain("population", {key: value for key, value in population.items() if key != "vary"}), "vary": axes}


def _spread(results: native.NativeSweep, executor: Any, size: int) -> None:
    """Measure what is left on an executor. Results come in the order of the designs."""
    # A client of Dask hands out an executor.
    executor = executor.get_executor() if hasattr(executor, "get_executor") else executor
    head, first = results.head(), results.done()
    running: collections.deque[Any] = collections.deque()
    try:
        while (work := results.work(first, size)) is not None or running:
            if work is not None:
                running.append(executor.submit(native.measure_work, head, work))
                first += size
            if work is None or len(running) >= IN_FLIGHT:
                results.add(running.popleft().result())
    finally:
        for future in running:
            future.cancel()
