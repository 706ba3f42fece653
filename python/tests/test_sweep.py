"""A sweep has the same rows whoever measures them."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Optional

import floatgate
import numpy
import pandas
import pyarrow  # type: ignore[import-untyped,unused-ignore]
import pyarrow.parquet  # type: ignore[import-untyped,unused-ignore]
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
    copy = pickle.loads(pickle.dumps(table))
    assert copy == table
    assert len(copy) == len(table) == 12


def test_a_table_from_a_pickle_has_all_that_it_had(tmp_path: Path) -> None:
    table = floatgate.sweep(SETUP, SPACE, "page read", constraints="page read KiB/s > 8000", maximise="page read KiB/s")
    copy = pickle.loads(pickle.dumps(table))
    for ask in ("columns", "rows", "feasible", "refused", "screened", "pareto", "sensitivity"):
        assert getattr(copy, ask) == getattr(table, ask), ask
    assert copy.refused == 4
    for name in ("rows.csv", "rows.json", "rows.parquet"):
        copy.write(tmp_path / f"copy-{name}")
        table.write(tmp_path / name)
        assert (tmp_path / f"copy-{name}").read_bytes() == (tmp_path / name).read_bytes(), name
    assert pickle.loads(pickle.dumps(copy)) == table


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
    assert pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pydict() == expected.to_dict()
    assert len(pandas.read_parquet(tmp_path / "a.parquet")) == 12


def contents(path: Path) -> Any:
    """Bytes of a file; of a Parquet file its values and floatgate's metadata."""
    if path.suffix != ".parquet":
        return path.read_bytes()
    table = pyarrow.parquet.read_table(path)
    return repr(table.to_pydict()), (table.schema.metadata or {}).get(b"floatgate")


@pytest.mark.skipif("FLOATGATE" not in os.environ, reason="FLOATGATE names the command")
def test_the_command_writes_the_same_table(tmp_path: Path) -> None:
    """One implementation: the same designs from a file, on another number of threads. Parquet comes from pyarrow here: only its values are the same."""
    spec = tmp_path / "designs.toml"
    spec.write_text(
        f'setup = "{SETUP}"\nconstraints = ["page read KiB/s > 3000"]\n'
        '[space]\n"bus.clock_hz" = {from=10e6, to=50e6}\n"bus.mode" = ["1S-1S-8S", "8S"]\n'
        "[sample]\nlatin_hypercube = 20\nseed = 4\n"
        '[objectives]\nmaximise = ["page read KiB/s"]\nminimise = ["bus.clock_hz"]\n'
    )
    table = floatgate.sweep(
        SETUP,
        {"bus.clock_hz": {"from": 10e6, "to": 50e6}, "bus.mode": ["1S-1S-8S", "8S"]},
        sample={"latin_hypercube": 20, "seed": 4},
        constraints=["page read KiB/s > 3000"],
        maximise=["page read KiB/s"],
        minimise=["bus.clock_hz"],
        chunk=3,
    )
    assert 0 < len(table.pareto) < table.feasible < 20
    for name in ("a.csv", "a.json", "a.parquet"):
        table.write(tmp_path / name)
        ours = contents(tmp_path / name)
        command = [os.environ["FLOATGATE"], "sweep", str(spec), "-o", str(tmp_path / name)]
        run = subprocess.run(command, capture_output=True, env={**os.environ, "RAYON_NUM_THREADS": "1"})
        # Of the designs that are refused the exit status tells.
        assert run.returncode == 1, run.stderr
        assert contents(tmp_path / name) == ours, name
    assert json.loads((tmp_path / "a.json").read_text())["sensitivity"] == table.sensitivity


def test_dask_goes_on_when_a_worker_is_killed_and_another_one_comes(tmp_path: Path) -> None:
    from dask.distributed import Client, LocalCluster

    space: dict[str, Any] = {"bus.clock_hz": range(10_000_000, 50_000_000, 20_000)}
    floatgate.sweep(SETUP, space, output=tmp_path / "alone.parquet")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:  # type: ignore[no-untyped-call]
        killed: list[int] = []

        class Killing:
            """The client's executor, which kills a worker with the tenth task."""

            def __init__(self) -> None:
                self.executor = client.get_executor()
                self.tasks = 0

            def submit(self, *args: Any) -> Any:
                self.tasks += 1
                if self.tasks == 10:
                    process = next(iter(cluster.workers.values())).process
                    killed.append(process.pid)
                    process.process._process.kill()
                    cluster.scale(3)
                return self.executor.submit(*args)

        floatgate.sweep(SETUP, space, executor=Killing(), chunk=40, output=tmp_path / "dask.parquet")
        assert killed
    assert (tmp_path / "dask.parquet").read_bytes() == (tmp_path / "alone.parquet").read_bytes()


@pytest.mark.skipif("FLOATGATE_TEST_ALL" not in os.environ, reason="slow: run by ./test --all")
def test_slow_four_processes_of_dask_and_a_killed_one() -> None:
    """A scheduler process, four worker processes, 100,000 designs; one worker is killed, and another one comes."""
    script = Path(__file__).parents[2] / "scripts" / "bench-dask"
    done = subprocess.run([sys.executable, str(script), "--workers", "4", "--kill", "4"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same bytes" in done.stdout


def test_an_interrupted_sweep_goes_on(tmp_path: Path) -> None:
    checkpoint = tmp_path / "designs.part"
    space = {"bus.clock_hz": range(10_000_000, 50_000_000, 1_000_000)}

    class Failing(ThreadPoolExecutor):
        tasks = 0

        def submit(self, *args: Any, **kwargs: Any) -> Any:
            self.tasks += 1
            if self.tasks == 300:
                raise KeyboardInterrupt
            return super().submit(*args, **kwargs)

    long_space = {"bus.clock_hz": range(10_000_000, 50_000_000, 100_000)}
    with Failing(2) as executor, pytest.raises(KeyboardInterrupt):
        floatgate.sweep(SETUP, long_space, "page read", executor, chunk=1, checkpoint=checkpoint)
    kept = checkpoint.read_bytes()
    assert kept.count(b"\n") > 10
    table = floatgate.sweep(SETUP, long_space, "page read", checkpoint=checkpoint)
    assert checkpoint.read_bytes().startswith(kept)
    assert table == floatgate.sweep(SETUP, long_space, "page read")
    # The same cell of a notebook again, while its last result is there.
    assert table == floatgate.sweep(SETUP, long_space, "page read", checkpoint=checkpoint)
    with pytest.raises(floatgate.Error, match="another sweep"):
        floatgate.sweep(SETUP, space, "page read", checkpoint=checkpoint)


def test_members_that_an_executor_measured_are_kept(tmp_path: Path) -> None:
    """The first design never ends before the interruption, and the members of the second one are there afterwards."""
    checkpoint = tmp_path / "designs.part"
    small = {"partition.size": "8MiB"}

    def sweep(executor: Optional[Executor] = None, path: Optional[Path] = None) -> floatgate.Table:
        population = {"members": 5, "least": 2}
        space = {"options.fill_percent": [10, 20]}
        return floatgate.sweep(
            "imx6-mx30lf2g18ac", space, "age", executor, set=small, years=0.1, population=population, checkpoint=path
        )

    class Ending(ThreadPoolExecutor):
        tasks = 0

        def submit(self, *args: Any, **kwargs: Any) -> Any:
            self.tasks += 1
            if self.tasks == 1:
                return Future[str]()
            if self.tasks == 4:
                raise KeyboardInterrupt
            return super().submit(*args, **kwargs)

    with Ending(1) as executor, pytest.raises(KeyboardInterrupt):
        sweep(executor, checkpoint)
    # Its head, and two waves of the second design.
    assert checkpoint.read_bytes().count(b"\n") == 3
    kept = checkpoint.read_bytes()
    with ThreadPoolExecutor(2) as threads:
        table = sweep(threads, checkpoint)
    assert checkpoint.read_bytes().startswith(kept)
    assert checkpoint.read_bytes().count(b'{"design":1') == 3
    assert table == sweep()


def test_a_kept_exception_holds_no_checkpoint(tmp_path: Path) -> None:
    checkpoint = tmp_path / "designs.part"
    space = {"bus.clock_hz": range(10_000_000, 50_000_000, 1_000_000)}

    class Ending:
        """An executor that ends with its third task, as Ctrl-C or a killed process end it."""

        def __init__(self, executor: Executor, end: BaseException) -> None:
            self.executor, self.end, self.tasks = executor, end, 0

        def submit(self, *args: Any) -> Any:
            self.tasks += 1
            if self.tasks == 3:
                raise self.end
            return self.executor.submit(*args)

    kept: list[BaseException] = []
    for end in (KeyboardInterrupt(), BrokenProcessPool()):
        # Processes that are forked have the file, too.
        with ProcessPoolExecutor(1, get_context("fork")) as executor:
            try:
                floatgate.sweep(SETUP, space, "page read", Ending(executor, end), chunk=1, checkpoint=checkpoint)
            except BaseException as error:
                kept.append(error)
    assert [error.__traceback__ is not None for error in kept] == [True, True]
    table = floatgate.sweep(SETUP, space, "page read", checkpoint=checkpoint)
    assert table == floatgate.sweep(SETUP, space, "page read")


def test_designs_may_be_listed() -> None:
    designs: list[dict[str, Any]] = [{"bus.mode": "1S-1S-8S"}, {"bus.clock_hz": 10e6}, {}]
    table = floatgate.sweep(SETUP, designs, "page read", chunk=1)
    assert table["bus.mode"] == ["1S-1S-8S", None, None]
    assert table["bus.clock_hz"] == [None, 10e6, None]
    assert len(set(table["page read KiB/s"])) == 3


def measures() -> Iterator[tuple[str, str, dict[str, Any], str]]:
    yield "fs", "imx6-mx30lf2g18ac", {"set": {"partition.size": "16MiB"}, "tests": ["read 64 KiB"]}, "read 64 KiB KiB/s"
    yield "age", "imx6-mx30lf2g18ac", {"set": {"partition.size": "16MiB"}, "years": 0.5}, "survived"
    yield "endurance", "mt29f2g08aad", {}, "median cycles"
    yield "powercut", "imx6-mx30lf2g18ac", {"cuts": 3, "steps": 10, "size_bytes": 8 << 20}, "failing runs"
    yield "card", "kingston-class-10", {"requests": 20, "sizes": [4096]}, "used random write 4096 B MB/s"


@pytest.mark.parametrize("kind, name, arguments, column", measures())
def test_other_measures_have_their_columns(kind: str, name: str, arguments: dict[str, Any], column: str) -> None:
    table = floatgate.sweep(name, [{}], kind, **arguments)
    assert table[column][0] is not None
    assert table[column][0] >= 0.0


def test_a_population_has_intervals_and_a_screen_prunes() -> None:
    population = {"members": 8, "least": 4, "vary": {"options.temperature_c": {"from": 25, "to": 85}}}
    table = floatgate.sweep("mt29f2g08aad", [{}], "endurance", population=population)
    assert table["members"] == [8]
    assert table["mean cycles low"][0] < table["mean cycles"][0] < table["mean cycles high"][0]
    screened = floatgate.sweep(SETUP, {"bus.clock_hz": [10e6, 50e6]}, "page write", screen=["page read KiB/s > 8000"])
    assert [str(why).split(":")[0] for why in screened["refused"]] == ["screened out", "None"]


def test_numpy_and_arrow(tmp_path: Path) -> None:
    table = floatgate.sweep(SETUP, {"bus.clock_hz": numpy.arange(10, 30, 10) * 1_000_000}, "page read")
    if "FLOATGATE" in os.environ:
        (tmp_path / "table.json").write_text(json.dumps(table.to_dict()))
        report = [os.environ["FLOATGATE"], "report", str(tmp_path / "table.json"), "-o", str(tmp_path / "table.html")]
        assert subprocess.run(report).returncode == 0
    assert pyarrow.table(table).column("page read KiB/s").to_pylist() == table["page read KiB/s"]
    # Nothing was refused, and the column is one of texts all the same.
    assert table["refused"] == [None, None]
    for one in (table, pickle.loads(pickle.dumps(table))):
        types = {field.name: str(field.type) for field in pyarrow.table(one).schema}
        assert types["refused"] == "string"
        assert (types["bus.clock_hz"], types["page read KiB/s"], types["pareto"]) == ("int64", "double", "bool")


def test_one_absurd_value_costs_its_row(tmp_path: Path) -> None:
    space: dict[str, list[Any]] = {"chip": ["w35n01jw", "nosuch", "[broken"], "bus.clock_hz": [25e6, 1, 10**30, "fast"]}
    expected = floatgate.sweep(SETUP, space, "page read")
    assert expected.refused == 11
    assert [why is None for why in expected["refused"]] == [True] + [False] * 11
    with ThreadPoolExecutor(2) as threads:
        assert floatgate.sweep(SETUP, space, "page read", threads, chunk=1) == expected


def test_what_is_of_another_type_is_named() -> None:
    frame = pandas.DataFrame({"bus.clock_hz": [1e7, 2e7]})
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("set: expected keys .* got 5", {"set": {5: "x"}}),
        ("space: expected .* got None", {"space": None}),
        (r"space: expected .* got 'bus.clock_hz'.*to_dict\('records'\)", {"space": frame}),
        ("space: expected keys .* got 5", {"space": {5: [1]}}),
        ("space: expected keys .* got 5", {"space": [{5: 1}]}),
        ("space: bus.mode: expected .* got None", {"space": {"bus.mode": None}}),
        ("executor: expected .* got 5", {"executor": 5}),
        ("setup: expected .* got 5", {"setup": 5}),
        ("tests: expected .* got 5", {"tests": 5}),
        ("measure: expected .* got 5", {"measure": 5}),
        ("constraints: expected .* got 5", {"constraints": [5]}),
        ("options: expected .* got 5", {"options": 5}),
        ("sample: expected a mapping such as {'random': 20} or .* got 5", {"sample": 5}),
        ("population: expected .* got 5", {"population": 5}),
        ("population.vary: expected .* got 5", {"population": {"members": 3, "vary": 5}}),
        ("chunk: expected .* got 'x'", {"chunk": "x"}),
        ("output: expected .* got 5", {"output": 5}),
        ("checkpoint: expected .* got 5", {"checkpoint": 5}),
    ]
    for said, arguments in wrong:
        with pytest.raises(TypeError, match=f"^{said}"):
            floatgate.sweep(**{"setup": SETUP, "space": SPACE, **arguments})
    designs: list[dict[str, Any]] = frame.to_dict("records")  # type: ignore[assignment,unused-ignore]
    assert len(floatgate.sweep(SETUP, designs, "page read")) == 2


def test_integers_beyond_64_bits_cost_their_rows() -> None:
    for large in (2**63, 2**64 - 1, 2**64, 10**30):
        listed: list[dict[str, Any]] = [{"bus.clock_hz": 25_000_000}, {"bus.clock_hz": large}]
        grid: dict[str, Any] = {"bus.clock_hz": [25_000_000, large]}
        for table in (floatgate.sweep(SETUP, grid, "page read"), floatgate.sweep(SETUP, listed, "page read")):
            assert [why is None for why in table["refused"]] == [True, False]
        with pytest.raises(ValueError, match=f"^bus.clock_hz.to: {large} is beyond 64 bits"):
            ends: dict[str, Any] = {"bus.clock_hz": {"from": 1, "to": large}}
            floatgate.sweep(SETUP, ends, "page read", sample={"random": 3})


def test_sweeps_do_not_speak_toml() -> None:
    wrong: list[dict[str, Any]] = [
        {"space": {}},
        {"space": {"bus.clock_hz": {"from": 1e7, "until": 2e7}}},
        {"space": {"bus.clock_hz": {"from": 1e7, "to": 2e7}}},
        {"space": {"bus.clock_hz": {"to": "x"}}},
        {"space": [{}], "sample": {"random": 3}},
        {"space": [{}], "population": {"members": 2, "stop": {"column": "x"}}},
        {"space": [{}], "maximise": "page read KiB/s", "minimise": ["page read KiB/s"]},
    ]
    for arguments in wrong:
        with pytest.raises(floatgate.Error) as caught:
            floatgate.sweep(SETUP, measure="page read", **arguments)
        assert not re.search(r"\btable\b|\{ |\bTOML\b|in \[|`designs`", str(caught.value)), caught.value
    assert caught.value.message == "`page read KiB/s` is both in `maximise` and in `minimise`"


def test_designs_that_all_miss_the_screen_are_rows() -> None:
    table = floatgate.sweep(SETUP, {"bus.clock_hz": [10e6, 50e6]}, "page read", screen="page read KiB/s > 1e9")
    assert (len(table), table.screened, table.refused, table.feasible) == (2, 2, 0, 0)


def test_shares_add_up_to_one() -> None:
    table = floatgate.sweep(SETUP, {**SPACE, "bus.mode": ["1S-1S-8S", "1S-8S-8S"]}, maximise="page read KiB/s")
    assert sum(row["share"] for row in table.sensitivity) == pytest.approx(1.0)
    assert table.sensitivity[-1]["key"] == "interactions and rest"


def test_workers_in_another_folder_find_the_files_of_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = tmp_path / "board.toml"
    setup.write_text(f"base = '{SETUP}'\n")
    monkeypatch.chdir(tmp_path)
    expected = floatgate.sweep("./board.toml", SPACE, "page read")
    with ProcessPoolExecutor(1, get_context("spawn"), os.chdir, ("/",)) as elsewhere:
        assert floatgate.sweep("./board.toml", SPACE, "page read", executor=elsewhere) == expected


def test_a_missing_file_is_no_file_for_python_either(tmp_path: Path) -> None:
    import errno

    nosuch = tmp_path / "nosuch.toml"
    for use in (
        lambda: floatgate.speed(nosuch),
        lambda: floatgate.sweep(nosuch, SPACE),
        lambda: floatgate.Image(nosuch),
        lambda: floatgate.Image.build(nosuch, tmp_path / "a.ubi", part="mx30lf2g18ac"),
        lambda: floatgate.probe(nosuch),
        lambda: floatgate.papers(nosuch),
        lambda: floatgate.card(nosuch),
    ):
        with pytest.raises(FileNotFoundError, match="nosuch.toml") as caught:
            use()
        assert isinstance(caught.value, floatgate.Error)
        assert caught.value.errno == errno.ENOENT
        assert caught.value.help
        again = pickle.loads(pickle.dumps(caught.value))
        assert (again.message, again.help, again.errno) == (caught.value.message, caught.value.help, errno.ENOENT)


def test_misspelt_arguments_are_told_in_words_of_python() -> None:
    misspelt: list[tuple[dict[str, Any], str, str]] = [
        ({"maximize": ["erase"]}, "`maximize` is neither an argument", "did you mean `maximise`"),
        ({"objectives": ["erase"]}, "`objectives` is neither an argument of `sweep` nor an option", "valid keys: `corner`"),
        ({"options": {"blokcs": 3}}, "`blokcs` is neither an argument", "did you mean `blocks`"),
        ({"population": {"member": 3}}, "`population` has no key `member`", "did you mean `members`"),
        ({"population": {"members": 3, "stop": {"wide": 1}}}, "`population.stop` has no key `wide`", "`width`"),
        ({"sample": {"random": 3, "sed": 1}}, "`sample` has no key `sed`", "did you mean `seed`"),
    ]
    for arguments, said, help in misspelt:
        with pytest.raises(floatgate.Error) as caught:
            floatgate.sweep(SETUP, {"bus.clock_hz": [25e6]}, **arguments)
        assert caught.value.message.startswith(said)
        assert caught.value.help is not None and help in caught.value.help


def test_parquet_has_its_ending_and_an_executor_is_no_class(tmp_path: Path) -> None:
    table = floatgate.sweep(SETUP, [{}], "page read")
    with pytest.raises(floatgate.Error, match="ends in .parquet"):
        table.to_parquet(tmp_path / "designs.csv")
    assert not os.listdir(tmp_path)
    with pytest.raises(TypeError, match="^executor: expected a concurrent.futures.Executor"):
        floatgate.sweep(SETUP, [{}], "page read", ThreadPoolExecutor)


def test_a_value_of_a_space_that_is_none_is_told_with_its_place() -> None:
    spaces: list[tuple[Any, str]] = [
        ({"bus.clock_hz": [25e6, float("nan")]}, r"^space: bus.clock_hz\[1\]: nan is no value"),
        ({"bus.clock_hz": numpy.array([numpy.inf])}, r"^space: bus.clock_hz\[0\]: inf is no value"),
    ]
    for space, said in spaces:
        with pytest.raises(floatgate.Error, match=said):
            floatgate.sweep(SETUP, space, "page read")
    with pytest.raises(TypeError, match=r"^space\[1\]: bus.clock_hz: expected .*, got None"):
        floatgate.sweep(SETUP, [{"bus.clock_hz": 25e6}, {"bus.clock_hz": None}], "page read")


def test_a_value_that_json_does_not_have_is_named() -> None:
    for wrong in (
        {"options": {"blocks": None}},
        {"population": {"members": object()}},
        {"seed": b"x"},
    ):
        with pytest.raises(TypeError, match=f"^{next(iter(wrong))}.*expected .*, got"):
            floatgate.sweep(SETUP, {"bus.clock_hz": {"from": 1e7, "to": 2e7}}, "page read", **wrong)
    with pytest.raises(floatgate.Error, match="^sample.random: nan is no value"):
        floatgate.sweep(SETUP, {"bus.clock_hz": {"from": 1e7, "to": 2e7}}, "page read", sample={"random": float("nan")})  # type: ignore[dict-item]
    with pytest.raises(floatgate.Error, match="^`seed`: expected a whole number"):
        floatgate.sweep(SETUP, SPACE, seed="x")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.parquet"])
def test_an_output_is_there_whole_or_as_it_was(name: str, tmp_path: Path) -> None:
    # No file may be larger than 4 KiB, as if the disk were full then.
    code = (
        "import floatgate, resource, signal, sys\n"
        f"table = floatgate.sweep({SETUP!r}, {{'bus.clock_hz': range(10_000_000, 12_000_000, 5_000)}}, 'page read')\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n    table.write(sys.argv[1])\nexcept floatgate.Error as error:\n    print(error)"
    )
    path = tmp_path / name
    path.write_text("before")
    run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert str(path) in run.stdout, run.stderr
    assert "help: " in run.stdout
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == [name]


def test_an_output_keeps_its_permissions_and_links(tmp_path: Path) -> None:
    table = floatgate.sweep(SETUP, [{}], "page read")
    path, link = tmp_path / "a.csv", tmp_path / "link.csv"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path)
    table.write(link)
    assert link.is_symlink()
    assert path.read_text().startswith("page read KiB/s,")
    assert path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(floatgate.Error, match="is a folder"):
        (tmp_path / "b.csv").mkdir()
        table.write(tmp_path / "b.csv")


def test_what_is_wrong_is_said_wherever_it_is_found(tmp_path: Path) -> None:
    with pytest.raises(floatgate.Error, match="unknown key `mdoe`"):
        floatgate.sweep(SETUP, {"bus.mdoe": ["1S-8S-8S"]})
    with ThreadPoolExecutor(2) as threads, pytest.raises(floatgate.Error, match="no test is called"):
        floatgate.sweep(SETUP, SPACE, "page hole", threads)
    with pytest.raises(floatgate.Error, match="2 of 2 designs cannot be had, the first because: "):
        floatgate.sweep(SETUP, {"bus.clock_hz": [1, 2]})
    nothing: list[Any] = []
    for values in (nothing, iter(nothing)):
        with pytest.raises(floatgate.Error, match="no design"):
            floatgate.sweep(SETUP, {"bus.mode": values})
    with pytest.raises(floatgate.Error, match="no design"):
        floatgate.sweep(SETUP, [])
    with pytest.raises(floatgate.Error, match="chunk"):
        floatgate.sweep(SETUP, SPACE, chunk=0)
    with pytest.raises(floatgate.Error, match=r"`blokcs` is neither an argument"):
        floatgate.sweep(SETUP, SPACE, blokcs=3)
    with pytest.raises(floatgate.Error, match="neither CSV"):
        floatgate.sweep(SETUP, SPACE, output=tmp_path / "a.xlsx")


def test_errors_come_back_from_workers() -> None:
    error = pickle.loads(pickle.dumps(floatgate.Error("message", "advice")))
    assert (error.message, error.help, str(error)) == ("message", "advice", "message\nhelp: advice")


OBJECTIVES: dict[str, Any] = {
    "constraints": "page read KiB/s > 8000",
    "maximise": "page read KiB/s",
    "minimise": "bus.clock_hz",
}


def test_shares_make_the_bytes_of_one_run(tmp_path: Path) -> None:
    whole = floatgate.sweep(SETUP, SPACE, "page read", output=tmp_path / "whole.csv", **OBJECTIVES)
    parts = [tmp_path / f"{number}.part" for number in (1, 2, 3)]
    shares = [
        floatgate.sweep(SETUP, SPACE, "page read", shard=(number, 3), checkpoint=part, chunk=2, **OBJECTIVES)
        for number, part in enumerate(parts, 1)
    ]
    assert [len(share) for share in shares] == [4, 4, 4]
    assert shares[1].head(1)[0]["bus.mode"] == "1S-8S-8S"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(shares[1])
    merged = floatgate.sweep(SETUP, SPACE, "page read", merge=parts[::-1], output=tmp_path / "merged.csv", **OBJECTIVES)
    assert merged == whole and merged.sensitivity == whole.sensitivity and merged.pareto == whole.pareto
    assert (tmp_path / "merged.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    with pytest.raises(ValueError, match="no file has the designs"):
        floatgate.sweep(SETUP, SPACE, "page read", merge=parts[1:], **OBJECTIVES)
    for wrong in ({"shard": "4/3", "checkpoint": tmp_path / "x"}, {"shard": "1/2"}, {"shard": "1/2", "merge": parts}):
        with pytest.raises(ValueError, match="share"):
            floatgate.sweep(SETUP, SPACE, "page read", **wrong)


def test_progress_is_told_with_the_time_that_is_left() -> None:
    for executor in (None, ThreadPoolExecutor(2)):
        told: list[tuple[int, int, Any]] = []
        floatgate.sweep(SETUP, SPACE, "page read", executor, chunk=3, progress=lambda *step: told.append(step))
        assert [(done, of) for done, of, _ in told] == [(3, 12), (6, 12), (9, 12), (12, 12)]
        assert all(left >= 0 for *_, left in told) and told[-1][2] == 0
    with pytest.raises(TypeError, match="^progress: "):
        floatgate.sweep(SETUP, SPACE, progress=3)  # type: ignore[arg-type]


def test_a_broken_pool_is_made_again() -> None:
    made: list[ProcessPoolExecutor] = []

    def pool() -> ProcessPoolExecutor:
        made.append(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
        return made[-1]

    def kill(done: int, of: int, left: Any) -> None:
        if len(made) == 1:
            for process in made[0]._processes.values():
                process.kill()

    space = {"bus.clock_hz": range(10_000_000, 50_000_000, 100_000)}
    table = floatgate.sweep(SETUP, space, "page read", pool, chunk=4, progress=kill)
    assert len(made) == 2
    assert table == floatgate.sweep(SETUP, space, "page read")


def test_a_pool_that_breaks_each_time_ends_the_sweep() -> None:
    class Broken(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            raise BrokenProcessPool("dead")

    made: list[Any] = []
    with pytest.raises(BrokenProcessPool):
        floatgate.sweep(SETUP, SPACE, "page read", lambda: made.append(1) or Broken(1))  # type: ignore[func-returns-value]
    assert len(made) == 3


def test_workers_write_parts_of_a_data_set(tmp_path: Path) -> None:
    table = floatgate.sweep(SETUP, SPACE, "page read", **OBJECTIVES)
    for name, executor in (("here", None), ("threads", ThreadPoolExecutor(2))):
        folder = f"{tmp_path / name}/"
        floatgate.sweep(SETUP, SPACE, "page read", executor, chunk=5, output=folder, **OBJECTIVES)
        assert sorted(os.listdir(folder)) == ["_floatgate.json", *(f"part-{first:010}.parquet" for first in (0, 5, 10))]
        whole = pandas.read_parquet(folder)
        assert whole["design"].tolist() == list(range(12))
        frame = table.to_pandas()
        for column in ("bus.mode", "bus.clock_hz", "page read KiB/s", "refused"):
            assert whole[column].astype(object).where(whole[column].notna(), None).tolist() == table[column], column
        facts = json.loads(Path(folder, "_floatgate.json").read_text())
        assert facts["pareto"] == frame.index[frame["pareto"]].tolist()
        assert (facts["designs"], facts["feasible"], facts["refused"]) == (12, table.feasible, table.refused)
        assert facts["sensitivity"] == table.sensitivity
        with pytest.raises(ValueError, match="not empty"):
            floatgate.sweep(SETUP, SPACE, "page read", output=folder)


def test_a_table_shows_its_head_and_draws() -> None:
    table = floatgate.sweep(SETUP, SPACE, "page read", **OBJECTIVES)
    assert table.head(3) == table.rows[:3] and table.head(0) == [] and table.head(100) == table.rows
    assert table.plot("bus.clock_hz", "page read KiB/s").get_xlabel() == "bus.clock_hz"
    axes = table.plot()
    assert {axes.get_xlabel(), axes.get_ylabel()} <= set(table.columns)
    with pytest.raises(ValueError, match="no column with numbers"):
        table.plot("bus.mode")
    with pytest.raises(ValueError, match="rows is -1"):
        table.head(-1)
    assert "1S-8S-8S" in table._repr_html_()


def test_frames_have_one_value_a_cell() -> None:
    frames = [
        floatgate.speed(SETUP).to_pandas(),
        floatgate.endurance("mx30lf2g18ac", blocks=2).to_pandas(),
        floatgate.probe("fake-wraps-32g").to_pandas(),
        floatgate.advise("kingston-class-10").to_pandas(),
    ]
    for frame in frames:
        for column in frame:
            assert not any(isinstance(cell, (dict, list)) for cell in frame[column]), column
    assert {"breakdown_array_ns", "interval_unit"} <= set(frames[0])
    assert {"life_median_cycles"} <= set(frames[1])
