"""Many designs of one setup, here or on any executor."""

from __future__ import annotations

import functools
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _floatgate as native
from ._arguments import Overrides, Path, fspath, override, overrides, strings
from ._error import ArgumentError, Error
from ._result import Tabular, rows_html
from ._types import Sensitivity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Measurements, as ``measure`` of a specification names them.
KINDS = ("speed", "fs", "age", "endurance", "powercut", "card")

#: Designs of a task; a design of the others takes seconds.
CHUNKS = {"speed": 1000, "endurance": 16}

#: Chunks that wait or run at any time on an executor: two for each of 128 workers, and no burden for memory.
IN_FLIGHT = 256

#: Attempts with a new pool when the workers of one have died without a result in between.
ATTEMPTS = 3

#: Rows that `Table.head` and notebooks show.
HEAD = 5

#: Function that gets the number of designs that are done, of all, and the seconds that are left; ``None`` before the first task.
Progress = Callable[[int, int, Optional[float]], None]

#: Overrides of one design; numpy's scalars are values, too.
Design = Mapping[str, Any]

Space = Union[Mapping[str, Iterable[Any]], Iterable[Design]]


class Table(Tabular):
    """Result of `sweep`: one row per design, in the order of the space.

    It has these columns:

    - the keys of the space;
    - ``"<test> KiB/s"`` for each test, or ``"<test> ms"`` where no bytes are moved;
    - ``reads`` and ``writes``, the operations and clocks that the driver chose;
    - ``not given``, requests that could not be met;
    - ``feasible``: all constraints hold;
    - ``pareto``: no feasible design is better in one objective and as good in the others;
    - ``refused``, the reason why a design is impossible, or the condition of the screen that it missed, or ``None``.

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
        """A pickle contains the specification and all measured figures."""
        if self._results.range()[0] > 0:
            raise TypeError("a share of a sweep cannot be pickled: its checkpoint has all that was measured")
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
        """Number of impossible designs; their reasons are in the column ``refused``."""
        return self._results.counts()[1]

    @property
    def screened(self) -> int:
        """Number of designs that missed a condition of the screen; the condition is in the column ``refused``."""
        return self._results.counts()[2]

    @property
    def pareto(self) -> list[dict[str, Any]]:
        """The rows on the Pareto front of the objectives."""
        return [row for row in self if row["pareto"]]

    @property
    def sensitivity(self) -> list[Sensitivity]:
        """Share of each objective's variance that follows from each key alone, 0 to 1 (first-order Sobol index).

        The list has dicts with ``objective``, ``key`` and ``share``. For each objective the largest share is first. The last one is
        the rest, with the key ``interactions and rest``. The shares of an objective add up to 1.
        """
        found: list[Sensitivity] = json.loads(self._results.sensitivity())
        return found

    def head(self, rows: int = HEAD) -> list[dict[str, Any]]:
        """The first rows, without reading the others.

        Parameters
        ----------
        rows : int
            Maximum number of rows.

        Returns
        -------
        list of dict
            The rows by column.

        Raises
        ------
        ArgumentError
            The number is negative.

        Examples
        --------
        >>> table = sweep("am62a-w35n01jw", {"bus.mode": ["1S-1S-8S", "1S-8S-8S"]}, "page read")
        >>> [row["bus.mode"] for row in table.head(1)]
        ['1S-1S-8S']
        """
        if rows < 0:
            raise ArgumentError(f"rows is {rows}", "give 0 or more")
        columns = {name: values for name, (_, values) in self._results.first_rows(rows).items()}
        return [dict(zip(columns, values)) for values in zip(*columns.values())]

    def plot(self, x: Optional[str] = None, y: Optional[str] = None, ax: Optional[Axes] = None) -> Axes:
        """Plot a column against another one, with a point for each design that is not refused. Needs matplotlib.

        Parameters
        ----------
        x, y : str, optional
            Columns with numbers. The default is the last two; figures are after the keys.
        ax : matplotlib.axes.Axes, optional
            Axes for the plot; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes. Designs on the Pareto front have a different colour.

        Raises
        ------
        ArgumentError
            No such column with numbers exists.

        Examples
        --------
        >>> table = sweep("am62a-w35n01jw", {"bus.clock_hz": [25e6, 50e6]}, "page read", maximise="page read KiB/s")
        >>> table.plot("bus.clock_hz", "page read KiB/s").get_ylabel()
        'page read KiB/s'
        """
        numeric = [name for name, (of, _) in self._results.column_types().items() if of in ("int64", "float64")]
        chosen = [name for name in (x, y) if name is not None]
        free = [name for name in numeric if name not in chosen]
        x = free[-2 if y is None and len(free) > 1 else -1] if x is None and free else x
        y = next((name for name in reversed(numeric) if name != x), None) if y is None else y
        for argument, name in (("x", x), ("y", y)):
            if name not in numeric:
                raise ArgumentError(f"{argument}: {name!r} is no column with numbers", f"there are {', '.join(numeric)}")
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(7.0, 4.0), layout="constrained").add_subplot()
        for is_front, label in ((False, "other designs"), (True, "Pareto front")):
            points = [
                (a, b)
                for a, b, front in zip(self[str(x)], self[str(y)], self["pareto"])
                if a is not None and b is not None and bool(front) == is_front
            ]
            if points:
                ax.scatter([a for a, _ in points], [b for _, b in points], s=12, label=label)
        ax.set_xlabel(str(x).replace("$", r"\$"))
        ax.set_ylabel(str(y).replace("$", r"\$"))
        if any(self["pareto"]):
            ax.legend(fontsize="small")
        return ax

    def _repr_html_(self) -> str:
        return rows_html(self.head(60), len(self))

    def __getitem__(self, column: str) -> list[Any]:
        """A column by name."""
        return self._data[column]

    def __contains__(self, column: object) -> bool:
        """True if a column of this name exists."""
        return column in self._data

    def __len__(self) -> int:
        return self._results.done() - self._results.range()[0]

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

        Equal tables produce equal bytes; CSV and JSON have the same bytes as from ``floatgate sweep``. Parquet needs pyarrow.
        """
        path = fspath("path", path)
        if path.endswith(".parquet"):
            _write_parquet(self._results, path)
        else:
            self._results.write(path)

    def to_parquet(self, path: Path) -> None:
        """Like `write`, to a name that ends in ``.parquet``."""
        if not fspath("path", path).endswith(".parquet"):
            raise ArgumentError(f"{path}: Parquet ends in .parquet", "name such a file, or use `write`")
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
    """Write the rows to a Parquet file, page by page. An existing file is replaced after all rows are written."""
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
    shard: Union[str, tuple[int, int], None] = None,
    merge: Optional[Sequence[Path]] = None,
    progress: Optional[Progress] = None,
    **more_options: Any,
) -> Table:
    """Measure every design of a space. ``floatgate sweep`` does the same, with a file in place of the arguments.

    Parameters
    ----------
    setup : str or path
        Name of a built-in setup, or the path of a TOML file that all workers can read. For ``"endurance"`` the name of a part, for
        ``"card"`` that of a card.
    space : mapping of str to iterable, or iterable of mappings
        A grid, ``{"bus.mode": ["1S-1S-8S", "1S-8S-8S"], "bus.clock_hz": [25e6, 50e6]}``, whose last key changes fastest; or the
        designs themselves, ``[{"bus.mode": "1S-1S-8S"}, ...]``. With `sample` a key may have a range,
        ``{"from": 10e6, "to": 50e6}``. The key ``"setup"`` names another setup, ``"options.years"`` an option of the measurement.
    measure : str or sequence of str
        ``"speed"``, ``"fs"`` (`speed` of a filesystem), ``"age"``, ``"endurance"``, ``"powercut"`` or ``"card"``;
        or tests of ``speed``, such as ``"page read"``.
    executor : optional
        A ``concurrent.futures.Executor``, a ``dask.distributed.Client``, or a function that makes an executor. The function is
        called again after workers have died. By default all cores of this machine are used.
    set : mapping, optional
        Overrides of all designs.
    tests : str or sequence of str
        Tests that become columns: ``"page read"``, ``"8 page read"``, ``"erase"`` and similar ones, or ``"all"``. The default is
        reads and writes of pages and eraseblocks, and erases. A single test takes the least time.
    options : mapping, optional
        Options of the measurement (docs/scale.md): ``{"blocks": 10}``, ``{"years": 10}``. They can also be given as arguments.
    sample : mapping, optional
        ``{"random": 1000, "seed": 1}`` or ``{"latin_hypercube": 1000}`` draws designs from the space.
    population : mapping, optional
        ``{"members": 100, "least": 8, "vary": {...}, "stop": {"column": "survived", "width": 0.1}}`` measures many chips of each
        design. Figures are then means, with the ends of a 95 % interval (``"<figure> low"``, ``"<figure> high"``).
    screen : str or sequence of str
        Conditions on ``speed``, ``"page read KiB/s > 5000"``, which is measured first. Designs that miss a condition are not
        measured further.
    constraints : str or sequence of str
        Conditions on figures or keys.
    maximise, minimise : str or sequence of str
        Columns in which a higher or a lower value is better.
    output : path, optional
        File to write: CSV, JSON or Parquet by its extension. A name that ends in a slash is a folder; the workers write a Parquet
        data set into it, one part per task.
    checkpoint : path, optional
        File for the figures measured so far; the same sweep continues from it.
    chunk : int, optional
        Number of designs per task. It does not affect the result.
    seed : int
        Seed of the chip, or of the first member of a population.
    shard : str or tuple of int, optional
        Measure only a share of the designs, and write it to the `checkpoint`: ``"1/8"`` or ``(1, 8)`` is the first of eight shares.
    merge : sequence of path, optional
        Checkpoints of all shares. The figures are taken from them, and nothing is measured. All other arguments must be those of
        the shares.
    progress : function, optional
        Called after each task with the number of finished designs, the number of all designs, and the remaining seconds.

    Returns
    -------
    Table
        One row per design. With `shard`, only the designs of the share, with their own Pareto front.

    Raises
    ------
    ArgumentError
        A key or name is unknown, or all designs are refused. A single design that is refused or screened out is a row.
    TypeError
        An argument has the wrong type.

    Examples
    --------
    >>> table = sweep("am62a-w35n01jw", {"bus.clock_hz": [25e6, 50e6]}, "page read", constraints="page read KiB/s > 12000")
    >>> table["feasible"]
    [False, True]
    """
    if chunk is not None and not isinstance(chunk, int):
        raise TypeError(f"chunk: expected an int, got {chunk!r}")
    if chunk is not None and chunk < 1:
        raise ArgumentError(f"a chunk of {chunk} designs", "give `chunk` of 1 or more")
    works = hasattr(executor, "submit") or hasattr(executor, "get_executor") or callable(executor)
    if executor is not None and (isinstance(executor, type) or not works):
        raise TypeError(f"executor: expected a concurrent.futures.Executor or a client of Dask, got {executor!r}")
    kind = measure if isinstance(measure, str) and measure in KINDS else "speed"
    named_tests = strings("tests", tests)
    if kind != measure:
        named_tests += strings("measure", measure)
        if not named_tests:
            raise ArgumentError("there is nothing to measure", f'give `measure`: one of {", ".join(KINDS)}, or a test such as "page read"')
    output = None if output is None else fspath("output", output)
    checkpoint = None if checkpoint is None else fspath("checkpoint", checkpoint)
    if output is not None and output.endswith(".parquet"):
        _pyarrow()
    if output is not None and checkpoint is not None and os.path.realpath(output) == os.path.realpath(checkpoint):
        raise ArgumentError(f"{checkpoint}: the output would replace the checkpoint", "name two files")
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
        **({"sample": _plain("sample", _sample(sample))} if sample is not None else {}),
        **({"population": _population(population)} if population is not None else {}),
    }
    share = None if shard is None else "/".join(map(str, shard)) if isinstance(shard, tuple) else str(shard)
    parts = None if merge is None else [fspath("merge", part) for part in merge]
    if share is not None and (parts is not None or output is not None):
        raise ArgumentError("a share has neither an output nor shares of its own", "give `output` where the shares are merged")
    results = native.NativeSweep(json.dumps(spec), checkpoint, output, share, parts)
    size = chunk or CHUNKS.get(kind, 1)
    start, end = results.range()
    watch = _Watch(results, start, end, progress)
    folder = _parts_folder(output)
    try:
        if executor is None and folder is None:
            cores = os.cpu_count() or 1
            while results.measure(size if chunk or kind == "speed" else size * cores):
                watch.tell()
        elif executor is None:
            _spread_here(results, size, folder, watch)
        elif hasattr(executor, "submit") or hasattr(executor, "get_executor"):
            _spread(results, executor, size, folder, watch)
        else:
            _spread_again(results, executor, size, folder, watch)
    finally:
        results.close()
    results.check_measured()
    table = Table(results)
    if folder is not None:
        _finish_parts(table, folder)
    elif output is not None:
        table.write(output)
    return table


class _Watch:
    """Reports the progress of a sweep to the caller."""

    def __init__(self, results: native.NativeSweep, start: int, end: int, progress: Optional[Progress]) -> None:
        self._results, self._start, self._end, self._progress = results, start, end, progress
        self._began, self._done_before = self._clock(), results.done()
        if progress is not None and not callable(progress):
            raise TypeError(f"progress: expected a function of three arguments, got {progress!r}")

    @staticmethod
    def _clock() -> float:
        import time

        return time.monotonic()

    def tell(self) -> None:
        if self._progress is None:
            return
        done = self._results.done()
        here, elapsed = done - self._done_before, self._clock() - self._began
        left = elapsed / here * (self._end - done) if here else None
        self._progress(done - self._start, self._end - self._start, left)


def _parts_folder(output: Optional[str]) -> Optional[str]:
    """Folder of the parts of a Parquet data set; it is created if it does not exist."""
    if output is None or not output.endswith("/"):
        return None
    _pyarrow()
    try:
        os.makedirs(output, exist_ok=True)
        old = [name for name in os.listdir(output) if not name.startswith(".")]
    except OSError as error:
        raise Error(f"{output}: {error.strerror or error}", "name another output") from None
    if old:
        raise ArgumentError(f"{output}: the folder is not empty", "name another one, or remove what is in it")
    return output


def _measure_part(head: str, work: str, folder: str, types: Mapping[str, str]) -> str:
    """Measures designs on this thread, and writes the finished ones as a part of a Parquet data set. It runs in workers."""
    line = native.measure_work(head, work)
    batch = json.loads(line)["batch"]
    if batch is not None:
        _write_part(batch, json.loads(work), folder, types)
    return line


def _write_part(batch: Mapping[str, Any], work: Mapping[str, Any], folder: str, types: Mapping[str, str]) -> None:
    arrow = _pyarrow()
    count, first = len(work["designs"]), int(batch["first"])
    columns: dict[str, Any] = {"design": arrow.array(range(first, first + count), "int64")}
    for place, key in enumerate(work["keys"]):
        of = types[key]
        values = [design[place] for design in work["designs"]]
        columns[key] = arrow.array([None if value is None else _typed(value, of) for value in values], of)
    figures, texts = dict(batch["figures"]), dict(batch["texts"])
    for name, values in figures.items():
        columns[name] = arrow.array(values, "float64")
    for name, values in {**texts, "refused": batch["refused"]}.items():
        columns[name] = arrow.array(values, "string")
    path = os.path.join(folder, f"part-{first:010}.parquet")
    _replace(path, lambda file: arrow.parquet.write_table(arrow.table(columns), file, compression="snappy"))


def _typed(value: str, of: str) -> Any:
    if of == "bool":
        return value == "true"
    return int(value) if of == "int64" else float(value) if of == "float64" else value.strip('"')


def _replace(path: str, write: Callable[[Any], None]) -> None:
    """Writes a file completely or not at all."""
    directory, name = os.path.split(path)
    with tempfile.NamedTemporaryFile(dir=directory or ".", prefix=f".{name}.", delete=False) as file:
        try:
            write(file)
            os.chmod(file.name, 0o666 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _finish_parts(table: Table, folder: str) -> None:
    """Writes the results of all parts into their folder: numbers of designs, sensitivities and the Pareto front."""
    results = table._results
    feasible, refused, screened = results.counts()
    facts = {**json.loads(results.facts()), "designs": len(table), "feasible": feasible, "refused": refused, "screened": screened}
    front: list[int] = []
    place = 0

    def note(page: Mapping[str, tuple[str, list[Any]]]) -> None:
        nonlocal place
        flags = page["pareto"][1]
        front.extend(place + at for at, flag in enumerate(flags) if flag)
        place += len(flags)

    results.each_page(note)
    text = json.dumps({**facts, "pareto": front}).encode()
    # The names of files that readers of a data set leave out begin with an underscore.
    _replace(os.path.join(folder, "_floatgate.json"), lambda file: file.write(text))


def _sample(sample: Any) -> Mapping[str, Any]:
    if not isinstance(sample, Mapping):
        keys = "{'random': 20} or {'latin_hypercube': 20, 'seed': 1}"
        raise TypeError(f"sample: expected a mapping such as {keys}, got {sample!r}")
    return sample


def _mapping(argument: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{argument}: expected a mapping, got {value!r}")
    return value


def _plain(name: str, value: Any) -> Any:
    """A value in JSON types; `name` is the argument for messages. Arrays and scalars of numpy are converted by tolist()."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        return {key: _plain(f"{name}.{key}", one) for key, one in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [_plain(name, one) for one in value]
    if isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, float):
        raise ArgumentError(f"{name}: {value!r} is no value", "give a finite number")
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
        raise ArgumentError(f"{key}.{end}: {value} is beyond 64 bits", "write it as a float")
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


def _task(results: native.NativeSweep, folder: Optional[str]) -> tuple[Callable[..., str], tuple[Any, ...]]:
    """The function that a worker runs, and its arguments after head and work."""
    if folder is None:
        return native.measure_work, ()
    return _measure_part, (os.path.abspath(folder), {name: of for name, (of, _) in results.column_types().items()})


def _spread_here(results: native.NativeSweep, size: int, folder: Optional[str], watch: _Watch) -> None:
    """Measure the remaining designs on threads of this process."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(os.cpu_count() or 1) as executor:
        _spread(results, executor, size, folder, watch)


def _spread(results: native.NativeSweep, executor: Any, size: int, folder: Optional[str], watch: _Watch) -> None:
    """Measure the remaining designs on an executor. Results are added in the order of the designs; members of a design are kept in
    the order of their arrival."""
    from concurrent.futures import FIRST_COMPLETED, Future, wait

    # A client of Dask hands out an executor.
    executor = executor.get_executor() if hasattr(executor, "get_executor") else executor
    head, first = results.head(), results.done()
    function, more = _task(results, folder)
    running: dict[Future[str], int] = {}
    # By the number of their first design.
    ended: dict[int, Future[str]] = {}
    try:
        while True:
            while len(running) + len(ended) < IN_FLIGHT and (work := results.work(first, size)) is not None:
                running[executor.submit(function, head, work, *more)] = first
                first += size
            if not running and not ended:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                place = running.pop(future)
                # An error is raised in its turn.
                has_failed = future.cancelled() or future.exception() is not None
                work = None if has_failed else results.keep(place, future.result())
                if work is None:
                    ended[place] = future
                else:
                    running[executor.submit(function, head, work, *more)] = place
            while (done := ended.pop(results.done(), None)) is not None:
                results.add(done.result())
                watch.tell()
    finally:
        for future in running:
            future.cancel()


def _spread_again(
    results: native.NativeSweep, make: Callable[[], Any], size: int, folder: Optional[str], watch: _Watch
) -> None:
    """Measure the remaining designs on an executor, and on a new one after its workers have died."""
    from concurrent.futures import BrokenExecutor

    attempts = ATTEMPTS
    while True:
        before, executor = results.done(), make()
        if not hasattr(executor, "submit") and not hasattr(executor, "get_executor"):
            raise TypeError(f"executor: expected a function that makes a concurrent.futures.Executor, it made {executor!r}")
        try:
            _spread(results, executor, size, folder, watch)
            return
        except BrokenExecutor:
            attempts = ATTEMPTS if results.done() > before else attempts - 1
            if attempts == 0:
                raise
        finally:
            # A client of Dask is closed, and its scheduler stays.
            executor.close() if hasattr(executor, "get_executor") else executor.shutdown(wait=True)
