"""A sweep has the same rows whoever measures them."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import floatgate
import numpy
import pandas
import pyarrow  # type: ignore[import-untyped,unused-ignore]
import pytest

SETUP = "am62a-w35n01jw"
SPACE: dict[str, list[Any]] = {"bus.mode": ["1S-1S-8S", "1S-8S-8S", "8S"], "bus.clock_hz": [10e6, 25e6, 40e6, 50e6]}


def test_rows_stand_in_the_order_of_the_grid() -> None:
    table = floatgate.sweep(SETUP, SPACE)
    grid = [(mode, clock) for mode in SPACE["bus.mode"] for clock in SPACE["bus.clock_hz"]]
    assert list(zip(table["bus.mode"], table["bus.clock_hz"])) == grid
    assert [row["bus.mode"] for row in table if row["refused"]] == ["8S"] * 4
    assert table.columns[:2] == ["bus.mode", "bus.clock_hz"]
    assert table.rows[0].keys() == set(table.columns)


@pytest.mark.parametrize("setup", [row.name for row in floatgate.setups()])
def test_a_row_is_what_speed_says(setup: str) -> None:
    run = floatgate.speed(setup)
    table = floatgate.sweep(setup, [{}], measure=[test.name for test in run], blocks=10)
    for test in run:
        assert table[f"{test.name} KiB/s"] == [test.kib_s]


def test_one_measure_is_the_same_alone() -> None:
    together = floatgate.sweep(SETUP, SPACE)
    alone = floatgate.sweep(SETUP, SPACE, "page read")
    assert alone["page read KiB/s"] == together["page read KiB/s"]
    assert "erase KiB/s" not in alone.columns
    assert floatgate.sweep(SETUP, [{}], ["8 page read", "2x erase"]).columns[:2] == ["8 page read KiB/s", "2x erase KiB/s"]


def test_the_same_table_on_any_executor_and_in_any_chunks(tmp_path: Path) -> None:
    expected = floatgate.sweep(SETUP, SPACE)
    for chunk in (1, 5, 12):
        assert floatgate.sweep(SETUP, SPACE, chunk=chunk) == expected
    with ThreadPoolExecutor(3) as threads:
        assert floatgate.sweep(SETUP, SPACE, executor=threads, chunk=2) == expected
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:
        table = floatgate.sweep(SETUP, SPACE, executor=processes, chunk=5)
    assert table == expected
    table.to_parquet(tmp_path / "a.parquet")
    expected.to_parquet(tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "a.parquet"), expected.to_pandas())


def test_dask_gives_the_same_table() -> None:
    from dask.distributed import Client

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:  # type: ignore[no-untyped-call]
        assert floatgate.sweep(SETUP, SPACE, executor=client, chunk=3) == floatgate.sweep(SETUP, SPACE)


def test_designs_may_be_listed() -> None:
    designs: list[dict[str, Any]] = [{"bus.mode": "1S-1S-8S"}, {"bus.clock_hz": 10e6}, {}]
    table = floatgate.sweep(SETUP, designs, "page read", chunk=1)
    assert table["bus.mode"] == ["1S-1S-8S", None, None]
    assert table["bus.clock_hz"] == [None, 10e6, None]
    assert len(set(table["page read KiB/s"])) == 3


def test_numpy_and_arrow() -> None:
    table = floatgate.sweep(SETUP, {"bus.clock_hz": numpy.arange(10, 30, 10) * 1_000_000}, "page read")
    assert pyarrow.table(table).column("page read KiB/s").to_pylist() == table["page read KiB/s"]


def test_what_is_wrong_is_said_wherever_it_is_found() -> None:
    with pytest.raises(floatgate.Error, match="unknown key `mdoe`"):
        floatgate.sweep(SETUP, {"bus.mdoe": ["1S-8S-8S"]})
    with ThreadPoolExecutor(2) as threads, pytest.raises(floatgate.Error, match="no test is called"):
        floatgate.sweep(SETUP, SPACE, "page hole", threads)
    with pytest.raises(floatgate.Error, match="all designs are refused"):
        floatgate.sweep(SETUP, {"bus.clock_hz": [1, 2]})
    nothing: list[Any] = []
    for values in (nothing, iter(nothing)):
        with pytest.raises(floatgate.Error, match="no design"):
            floatgate.sweep(SETUP, {"bus.mode": values})
    with pytest.raises(floatgate.Error, match="chunk"):
        floatgate.sweep(SETUP, SPACE, chunk=0)


def test_errors_come_back_from_workers() -> None:
    error = pickle.loads(pickle.dumps(floatgate.Error("message", "advice")))
    assert (error.message, error.help, str(error)) == ("message", "advice", "message\nhelp: advice")
