"""Common parts of all results: rows, and conversions to pandas, Arrow, JSON and notebooks."""

from __future__ import annotations

import copy
import dataclasses
import functools
import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import pandas

Row = TypeVar("Row")

#: Rows that a notebook shows.
SHOWN = 60

#: Arrow types of attributes that may have several types, or may be ``None`` in all rows, because ``None`` has no type of its own.
ARROW = {
    "Optional[str]": "string",
    "Optional[int]": "int64",
    "Optional[float]": "float64",
    "Union[int, float, str, None]": "string",
    "list[dict[str, Any]]": "string",
}


def row(cls: type[Row], data: Mapping[str, Any]) -> Row:
    """A dataclass from the fields of a JSON object; ``None`` if there is no object with this name."""
    hashable: Any = cls
    return row_of(cls, map(data.get, _fields(hashable)))


def row_of(cls: type[Row], values: Iterable[Any]) -> Row:
    """A dataclass from its values in order. Because the dataclass is frozen, its own `__init__` sets them one by one, which takes
    nearly twice as long."""
    hashable: Any = cls
    made = object.__new__(cls)
    made.__dict__.update(zip(_fields(hashable), values))
    return made


@functools.lru_cache(maxsize=None)
def _fields(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


class Tabular:
    """Something with columns of equal length."""

    def _columns(self) -> dict[str, list[Any]]:
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a tidy ``pandas.DataFrame``: one value per cell. Needs pandas. A dict becomes a column for each key. For
        example, ``breakdown_ns`` of a test becomes ``breakdown_array_ns``, ``breakdown_data_ns`` and so on. A list of texts becomes
        a text with semicolons, and any other list becomes JSON.

        Returns
        -------
        pandas.DataFrame
            One line for each row.

        Raises
        ------
        ImportError
            pandas is not installed.

        Examples
        --------
        >>> frame = speed("am62a-w35n01jw").to_pandas()
        >>> bool((frame["breakdown_array_ns"] <= frame["ns"]).all())
        True
        """
        import pandas

        return pandas.DataFrame(tidy(self._columns(), self._units()))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow stream, which polars, duckdb and pyarrow accept. Needs pyarrow."""
        import pyarrow  # type: ignore[import-untyped,unused-ignore]

        types = self._types()
        columns = tidy(self._columns(), self._units())
        arrays = {name: _arrow(column, types.get(name)) for name, column in columns.items()}
        return pyarrow.table(arrays).__arrow_c_stream__(requested_schema)

    def _units(self) -> Mapping[str, str]:
        """Units of columns of dicts whose names do not show them."""
        return {}

    def _types(self) -> Mapping[str, str]:
        """Arrow types of columns whose values do not always show them."""
        return {}

    def _title(self) -> str:
        return ""

    def _repr_html_(self) -> str:
        columns = self._columns()
        count = max((len(column) for column in columns.values()), default=0)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        lines = (
            "<tr>" + "".join(f"<td>{_cell(column[at])}</td>" for column in columns.values()) + "</tr>"
            for at in range(min(count, SHOWN))
        )
        more = f"<p>and {count - SHOWN} more</p>" if count > SHOWN else ""
        title = f"<p>{html.escape(self._title())}</p>" if self._title() else ""
        return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{more}"


#: Units at the end of names. They stay at the end when the key of a dict is inserted.
SUFFIXES = ("_ns", "_us", "_bytes", "_kib_s", "_cycles")

#: Keys of dicts that are ratios or have a unit of their own.
WITHOUT_UNIT = ("over_nominal", "change", "histogram")


def tidy(columns: Mapping[str, list[Any]], units: Mapping[str, str]) -> dict[str, list[Any]]:
    """Columns with one value per cell: dicts become a column for each key, lists become texts."""
    result: dict[str, list[Any]] = {}
    for name, values in columns.items():
        if not any(isinstance(value, dict) for value in values):
            result[name] = [_flat(value) for value in values]
            continue
        unit = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")
        stem, unit = name[: len(name) - len(unit)], unit or (f"_{units[name]}" if name in units else "")
        keys = dict.fromkeys(key for value in values if isinstance(value, dict) for key in value)
        for key in keys:
            cells = [value.get(key) if isinstance(value, dict) else None for value in values]
            end = "" if key.endswith(SUFFIXES) or key in WITHOUT_UNIT else unit
            result.update(tidy({f"{stem}_{key.replace(' ', '_')}{end}": cells}, {}))
    return result


def _flat(value: object) -> object:
    if not isinstance(value, (list, tuple)):
        return value
    if all(isinstance(one, str) for one in value):
        return "; ".join(value)
    return json.dumps(value)


def rows_html(rows: Sequence[Mapping[str, Any]], count: int) -> str:
    """A table of rows in HTML; `count` is the number of all rows."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    lines = ("<tr>" + "".join(f"<td>{_cell(row.get(name))}</td>" for name in names) + "</tr>" for row in rows)
    more = f"<p>and {count - len(rows)} more</p>" if count > len(rows) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{more}"


def _arrow(values: list[Any], of: str | None) -> object:
    """A column for Arrow, which allows only one type in a column. If the values have several types, all become texts, and values
    that are not texts become JSON."""
    import pyarrow

    if of != "string":
        try:
            return pyarrow.array(values, of)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            pass
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pyarrow.array(texts, "string")


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else html.escape(str(value))


class Result(Tabular, Generic[Row]):
    """Result of a study, made from its data, or from data that a subclass computes on request."""

    def __init__(self, data: Mapping[str, Any], rows: Sequence[Row]) -> None:
        self.__dict__.update(_data=data, rows=list(rows))

    @functools.cached_property
    def _data(self) -> Mapping[str, Any]:
        raise NotImplementedError

    @functools.cached_property
    def rows(self) -> list[Row]:
        """One object for each row; the units are in the names or the documentation of its attributes."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The whole result, as the command prints it with ``--json``. The command adds the least certain value."""
        return copy.deepcopy(dict(self._data))

    def _columns(self) -> dict[str, list[Any]]:
        dicts = [dataclasses.asdict(row) for row in self.rows]  # type: ignore[call-overload]
        names = list(dict.fromkeys(name for row in dicts for name in row))
        return {name: [row.get(name) for row in dicts] for name in names}

    def _types(self) -> dict[str, str]:
        typed = [row for row in self.rows[:1] if dataclasses.is_dataclass(row)]
        fields = [field for row in typed for field in dataclasses.fields(row)]
        return {field.name: ARROW[str(field.type)] for field in fields if str(field.type) in ARROW}

    def _find(self, by: str, name: str) -> Row:
        """The first row with this name."""
        names = [getattr(row, by) for row in self.rows]
        if name not in names:
            raise KeyError(f"{name!r}; there are {', '.join(names)}")
        return self.rows[names.index(name)]

    def _title(self) -> str:
        """Subject of the result."""
        return next((str(self._data[key]) for key in ("title", "chip", "card", "path") if self._data.get(key)), "")

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        rows = len(self.rows)
        of = f" of {self._title()!r}" if self._title() else ""
        return f"<{type(self).__name__}{of}, {rows} row{'' if rows == 1 else 's'}>"
