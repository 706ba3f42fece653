"""Studies agree with the command, say what is wrong, and print nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import floatgate
import jsonschema  # type: ignore[import-untyped,unused-ignore]
import numpy
import pyarrow  # type: ignore[import-untyped,unused-ignore]
import pytest
from floatgate._plot import Plotted
from floatgate._result import Result


def command(*arguments: str) -> str:
    run = subprocess.run([os.environ["FLOATGATE"], *arguments], capture_output=True, text=True)
    return run.stdout if run.returncode == 0 else " ".join(run.stderr.split())


def test_speed_is_that_of_the_command() -> None:
    run = floatgate.speed("am62a-w35n01jw", set={"bus.mode": "1S-1S-8S", "bus.clock_hz": 25e6})
    shown = json.loads(
        command("speed", "am62a-w35n01jw", "--set", "bus.mode=1S-1S-8S", "--set", "bus.clock_hz=25e6", "--json")
    )
    assert run.to_dict()["tests"] == shown["tests"]
    test = run["page read"]
    assert test.us == pytest.approx(test.ns / test.calls / 1000)
    assert sum(test.breakdown_ns.values()) == test.ns
    with pytest.raises(KeyError):
        run["page hole"]


def test_results_have_the_conclusion_and_the_board_of_the_command() -> None:
    part = "mx30lf1g18ac"
    results: list[tuple[Result[Any], list[str]]] = [
        (floatgate.speed(part, blocks=1), ["speed", part, "-c", "1"]),
        (floatgate.trace(part, "read-page"), ["trace", part, "read-page"]),
    ]
    for own, line in results:
        shown = json.loads(command(*line, "--json"))
        assert shown["board"] and shown["conclusion"]
        result = own.to_dict()
        # Without advice a speed does not say what would be faster.
        assert result["board"] == shown["board"] and result["conclusion"]
        assert shown["conclusion"].startswith(result["conclusion"])


def test_a_speed_is_made_when_it_is_asked_for_and_can_be_pickled() -> None:
    run = floatgate.speed("am62a-w35n01jw", blocks=1, fs=None)
    assert "rows" not in vars(run)
    rows = [{**dataclasses.asdict(row)} for row in run]
    for row, test in zip(rows, run.to_dict()["tests"]):
        assert row.pop("us") == test["ns"] / 1000 / test["calls"]
        assert row.pop("kib_s") == (test.pop("exact_kib_s") if test["bytes"] else 0.0)
        assert row.pop("mj_per_mib") == test.pop("mj_per_mib", None)
        assert row == test
    copied = pickle.loads(pickle.dumps(floatgate.speed("am62a-w35n01jw", blocks=1)))
    assert copied.rows == run.rows
    assert copied.to_dict() == run.to_dict()


def test_a_chip_that_is_none_is_told_by_its_argument() -> None:
    for study in (floatgate.ecc, floatgate.endurance):
        with pytest.raises(floatgate.Error) as caught:
            study("nothing")
        assert caught.value.message == "chip: no part is called `nothing`"


def test_an_array_is_no_value_of_a_key() -> None:
    for study in (floatgate.speed, floatgate.Mtd):
        with pytest.raises(TypeError, match=r"^set: bus.clock_hz: expected .*, got array\(\[1., 2.\]\)"):
            study("am62a-w35n01jw", {"bus.clock_hz": numpy.array([1.0, 2.0])})  # type: ignore[dict-item]


def test_units_of_pages_begin_with_one() -> None:
    for pages in ([0], [4, 0]):
        with pytest.raises(floatgate.Error, match="0 pages are none"):
            floatgate.speed("am62a-w35n01jw", pages=pages)


@pytest.mark.parametrize("value", [True, 25000000, 25e6, "25 MHz"])
def test_values_of_python_are_values_of_setups(value: object) -> None:
    key = "driver.continuous" if value is True else "bus.clock_hz"
    assert floatgate.speed("am62a-w35n01jw", {key: value})["page read"].kib_s > 0  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("setup", "changes"),
    [
        ("am62a-w35n01j", {}),
        ("am62a-w35n01jw", {"bus.mdoe": "1S-8S-8S"}),
        ("am62a-w35n01jw", {"bus.clock_hz": 3}),
        ("am62a-w35n01jw", {"chip": "w35n01"}),
    ],
)
def test_errors_have_the_help_of_the_command(setup: str, changes: dict[str, object]) -> None:
    with pytest.raises(floatgate.Error) as caught:
        floatgate.speed(setup, changes)  # type: ignore[arg-type]
    sets = [text for key, value in changes.items() for text in ("--set", f"{key}={value}")]
    shown = command("speed", setup, *sets)
    assert caught.value.message in shown
    assert caught.value.help is not None
    of_command = re.sub(r"`(setups|parts)\(\)`", r"`floatgate list \1`", caught.value.help)
    assert f"help: {of_command}" in shown


@pytest.mark.parametrize("value", [None, [1], b"x"])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="^set: bus.clock_hz: expected a str, a bool, an int or a float, got "):
        floatgate.speed("am62a-w35n01jw", {"bus.clock_hz": value})  # type: ignore[dict-item]
    with pytest.raises(floatgate.Error, match="^bus.clock_hz: nan is no value of a setup"):
        floatgate.speed("am62a-w35n01jw", {"bus.clock_hz": float("nan")})


def test_setups_and_parts_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for setup in floatgate.setups():
        assert floatgate.trace(setup.name).ns > 0
    assert json.loads(command("parts", "--json")) == floatgate.parts().to_dict()


def test_a_setup_of_ones_own(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('base = "am62a-w35n01jw"\nbus.mode = "1S-1S-1S"\n')
    assert floatgate.speed(own)["page read"].ns > floatgate.speed("am62a-w35n01jw")["page read"].ns


def test_errors_in_files_say_where(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('base = "am62a-w35n01jw"\nbus.clock_hz = 3\n')
    with pytest.raises(floatgate.Error, match=r"own\.toml:2:16: `bus\.clock_hz`"):
        floatgate.speed(own)


def test_each_study_has_rows_tables_and_pictures_for_notebooks(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = {"partition.size": "8MiB"}
    studies: list[Result[Any]] = [
        floatgate.trace("am62a-w35n01jw", "erase"),
        floatgate.papers("P0"),
        floatgate.endurance("mx30lf2g18ac", blocks=3),
        floatgate.fs("imx6-mx30lf2g18ac", small, filesystems=["ubifs"], tests=["write"], bytes=1 << 18),
        floatgate.age("imx6-mx30lf2g18ac", small, years=0.5, chips=1),
        floatgate.powercut("imx6-mx30lf2g18ac", mode="linear", cuts=20, steps=30, fast=True),
        floatgate.ecc("mx30lf2g18ac", codes=["bch4/512", "bch8/512"]),
        floatgate.card("kingston-class-10", sizes=[4096], requests=20),
        floatgate.probe("kingston-class-10", noise=0),
        floatgate.advise(floatgate.probe("kingston-class-10", noise=0)),
        floatgate.fit("imx6-mx30lf2g18ac", "page read 227 us"),
        floatgate.speed("am62a-w35n01jw"),
        floatgate.setups(),
        floatgate.parts(),
        floatgate.endurance(blocks=1),
        floatgate.probe("fake-wraps-32g", write=True),
        floatgate.probe("kingston-class-10", write=True),
    ]
    for number, study in enumerate(studies):
        assert pyarrow.table(study).num_rows == len(study)
        result = tmp_path / f"{number}.json"
        result.write_text(json.dumps(study.to_dict()))
        assert not command("report", str(result), "-o", str(tmp_path / "report.html")), study
    for study in studies:
        assert len(study) > 0
        assert len(study.to_pandas()) == len(study)
        shown = study._repr_html_()
        assert shown.count("<tr>") == 1 + min(len(study), 60)
        assert shown.startswith("<img") == isinstance(study, Plotted)
        assert json.dumps(study.to_dict())
    assert capfd.readouterr() == ("", "")


def test_studies_say_what_they_found() -> None:
    cuts = floatgate.powercut("imx6-mx30lf2g18ac", cuts=20, steps=30, fast=True)
    assert (cuts.failure_count, cuts.failures) == (0, [])
    assert cuts.cuts >= sum(step.runs for step in cuts) > 0
    lives = floatgate.age("imx6-mx30lf2g18ac", {"partition.size": "8MiB"}, years=0.5, chips=2)
    # Both live alike, which says nothing of how chips differ.
    assert (lives.survived, lives.probability) == (2, None)
    asked = ["--set", "partition.size=8MiB", "--years", "0.5", "--chips", "2", "--scrub-days", "91"]
    assert lives.to_dict() == json.loads(command("age", "imx6-mx30lf2g18ac", *asked, "--json"))
    wear = floatgate.endurance("mx30lf2g18ac", blocks=3)
    assert wear.to_dict() == json.loads(command("endurance", "mx30lf2g18ac", "--blocks", "3", "--json"))
    advice = floatgate.ecc("mx30lf2g18ac")
    assert advice.needs in [code.code for code in advice if code.enough]
    assert floatgate.papers("P0").to_dict() == json.loads(command("papers", "P0", "--json"))


def test_what_is_none_in_all_rows_has_its_arrow_type() -> None:
    lives = floatgate.age("imx6-mx30lf2g18ac", {"partition.size": "8MiB"}, years=0.1, chips=1)
    assert [life.failure for life in lives] == [None]
    schema = pyarrow.table(lives).schema
    assert (schema.field("failure").type, schema.field("failed_after_years").type) == (pyarrow.string(), pyarrow.float64())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: floatgate.speed("am62a-w35n01jw", seed="x"), "^seed: "),  # type: ignore[arg-type]
        (lambda: floatgate.speed(b"am62a-w35n01jw"), "^setup: expected a str or a path, got b'am62a"),  # type: ignore[arg-type]
        (lambda: floatgate.speed("am62a-w35n01jw", blocks=1.5), "^blocks: "),  # type: ignore[arg-type]
        (lambda: floatgate.speed("am62a-w35n01jw", pages=["x"]), "^pages: "),  # type: ignore[list-item]
        (lambda: floatgate.speed("am62a-w35n01jw", set=3), "^set: "),  # type: ignore[arg-type]
        (lambda: floatgate.age("am62a-w35n01jw", years="x"), "^years: "),  # type: ignore[arg-type]
        (lambda: floatgate.fs("am62a-w35n01jw", filesystems=[3]), "^filesystems: "),  # type: ignore[list-item]
        (lambda: floatgate.Mtd("am62a-w35n01jw", bad_blocks=None), "^bad_blocks: "),  # type: ignore[arg-type]
        (lambda: floatgate.speed("am62a-w35n01jw", pages=4), "^pages: "),  # type: ignore[arg-type]
        (lambda: floatgate.trace("am62a-w35n01jw", 3), "^operation: "),  # type: ignore[arg-type]
        (lambda: floatgate.papers(seed="x"), "^seed: "),  # type: ignore[arg-type]
        (lambda: floatgate.ecc("mx30lf2g18ac", codes=3), "^codes: "),  # type: ignore[arg-type]
        (lambda: floatgate.card("kingston-class-10", sizes=4096), "^sizes: "),  # type: ignore[arg-type]
        (lambda: floatgate.card("kingston-class-10", sizes=[0.5]), "^sizes: "),  # type: ignore[list-item]
        (lambda: floatgate.card("kingston-class-10", requests="x"), "^requests: "),  # type: ignore[arg-type]
        (lambda: floatgate.probe("kingston-class-10", noise="x"), "^noise: "),  # type: ignore[arg-type]
        (lambda: floatgate.advise("kingston-class-10", years="x"), "^years: "),  # type: ignore[arg-type]
        (lambda: floatgate.fit("imx6-mx30lf2g18ac", 3), "^results: "),  # type: ignore[arg-type]
        (lambda: floatgate.Mtd("am62a-w35n01jw").read(0, "x"), "^length: "),  # type: ignore[arg-type]
        (lambda: floatgate.Mtd("am62a-w35n01jw").read("x", 1), "^addr: "),  # type: ignore[arg-type]
        (lambda: floatgate.Mtd("am62a-w35n01jw").write(0, 5), "^data: "),
        (lambda: floatgate.Mtd("am62a-w35n01jw").readinto(0, 5), "^buffer: "),
        (lambda: floatgate.Mtd("am62a-w35n01jw").erase(None), "^addr: "),  # type: ignore[arg-type]
        (lambda: floatgate.Mtd("am62a-w35n01jw").read_oob(0, 5), "^mode: "),  # type: ignore[arg-type]
        (lambda: floatgate.Mtd("am62a-w35n01jw").cut("x"), "^operation: "),  # type: ignore[arg-type]
        (lambda: floatgate.Mtd("am62a-w35n01jw").cut(1, "x"), "^share: "),  # type: ignore[arg-type]
        (lambda: floatgate.Mtd("am62a-w35n01jw").restart("x"), "^off_ns: "),  # type: ignore[arg-type]
        (lambda: floatgate.BlockDevice("kingston-class-10").read("x", 512), "^lba: "),  # type: ignore[arg-type]
        (lambda: floatgate.BlockDevice("kingston-class-10").discard(0, "x"), "^count: "),  # type: ignore[arg-type]
        (lambda: floatgate.BlockDevice("kingston-class-10", seed="x"), "^seed: "),  # type: ignore[arg-type]
        (lambda: floatgate.SpiBus("stm32-n25q128a").wait("x"), "^ns: "),  # type: ignore[arg-type]
        (lambda: floatgate.SpiBus("stm32-n25q128a").xfer(6, read="x"), "^read: "),  # type: ignore[arg-type]
        (lambda: floatgate.SpiBus("stm32-n25q128a").xfer(6, data=5), "^data: "),
        (lambda: floatgate.Image("x", volume=5), "^volume: "),  # type: ignore[arg-type]
        (lambda: floatgate.Image("x", offset="0"), "^offset: "),  # type: ignore[arg-type]
        (lambda: floatgate.SpiBus("stm32-n25q128a").xfer("x"), "^opcode: "),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_type_is_said_by_the_name_of_the_argument(call: Callable[[], object], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call()


@pytest.mark.parametrize(
    ("call", "said", "help"),
    [
        (lambda: floatgate.speed("am62a-w35n01jw", seed=-1), "seed: -1 is out of range", "give 0 to 18446744073709551615"),
        (lambda: floatgate.speed("am62a-w35n01jw", blocks=-1), "blocks: -1 is out of range", "give 0 to 4294967295"),
        (lambda: floatgate.speed("am62a-w35n01jw", pages=[4, -1]), r"pages: \[4, -1\] is out of range", "give 0 to 4294967295"),
        (lambda: floatgate.endurance("mx30lf2g18ac", chips=-1), "chips: -1 is out of range", "give 0 to 4294967295"),
        (lambda: floatgate.Mtd("am62a-w35n01jw").read(-1, 1), "addr: -1 is out of range", "give 0 to 18446744073709551615"),
        (lambda: floatgate.SpiBus("stm32-n25q128a").xfer(256), "opcode: 256 is out of range", "give 0 to 255"),
        (lambda: floatgate.fs("am62a-w35n01jw", fill_percent=100), "fill_percent is out of range", "give 1 to 95"),
        (lambda: floatgate.powercut("am62a-w35n01jw", cuts=0), "cuts is out of range", "give 1 or more"),
        (lambda: floatgate.powercut("am62a-w35n01jw", recovery_cuts=2), "recovery_cuts: 2 is out of range", 'give 0, 1 or "exhaustive"'),
        (lambda: floatgate.fs("am62a-w35n01jw", partition=0), "a partition of 0 bytes", "give it at least one eraseblock"),
        (lambda: floatgate.speed("am62a-w35n01jw", partition=-1), "partition: -1 is out of range", "give 0 to"),
        (lambda: floatgate.SpiBus("stm32-n25q128a").xfer(0x9F), "the chip refuses: command 0x9f with lanes, address bytes, dummy cycles or data that", "the chip takes 0x9f as 1S-1S-1S with 0 address bytes, 0 dummy cycles and data from the chip"),
        (lambda: floatgate.Image.build(".", "x", part="mx30lf2g18ac", sizes=(1, 2)), "the sizes of the flash are given twice", "give one of"),
    ],
)
def test_a_wrong_value_is_said_with_those_that_are_right(call: Callable[[], object], said: str, help: Optional[str]) -> None:
    with pytest.raises(floatgate.Error, match=f"^{said}") as caught:
        call()
    assert help is None or str(caught.value.help).startswith(help)


def test_older_names_of_arguments_work_with_a_warning() -> None:
    few: dict[str, Any] = {"cuts": 4, "steps": 20, "fast": True}
    with pytest.warns(DeprecationWarning, match="`second` is now called `recovery_cuts`"):
        old = floatgate.powercut("imx6-mx30lf2g18ac", second="sampled", size=16 << 20, **few)
    new = floatgate.powercut("imx6-mx30lf2g18ac", recovery_cuts=1, partition=16 << 20, **few)
    assert old.to_dict() == new.to_dict() and new.cuts >= 4
    with pytest.raises(floatgate.ArgumentError, match="^size: this is the older name of `partition`"):
        floatgate.powercut("imx6-mx30lf2g18ac", size=8 << 20, partition=8 << 20, **few)


def test_a_partition_is_an_override() -> None:
    sized = floatgate.trace("imx6-mx30lf2g18ac", partition=8 << 20)
    assert sized.to_dict()["overrides"] == ["partition.size=8388608"]
    assert sized.to_dict() == floatgate.trace("imx6-mx30lf2g18ac", set={"partition.size": 8 << 20}).to_dict()


def test_advice_names_arguments_and_functions() -> None:
    with pytest.raises(floatgate.Error) as refused:
        floatgate.speed("am62a-w35n01jw", first_block=100_000)
    assert refused.value.help == "choose blocks with `first_block`, `blocks`, `skip` and `secondary_block`"
    with pytest.raises(floatgate.Error) as refused:
        floatgate.speed("no-such-setup")
    assert "`setups()` and `parts()` list all" in str(refused.value.help)


def test_nothing_to_measure_is_refused() -> None:
    for call in (
        lambda: floatgate.fs("am62a-w35n01jw", filesystems=[]),
        lambda: floatgate.fs("am62a-w35n01jw", tests=[]),
        lambda: floatgate.card("kingston-class-10", sizes=[]),
        lambda: floatgate.card("kingston-class-10", requests=0),
    ):
        with pytest.raises(floatgate.Error, match="there is no"):
            call()


def test_a_repr_tells_what_a_result_or_a_device_is_of() -> None:
    speed = floatgate.speed("am62a-w35n01jw", blocks=1)
    assert repr(speed) == f"<Speed of {speed.title!r}, {len(speed)} rows>"
    assert repr(floatgate.papers("P0")).startswith("<Papers, ")
    assert repr(floatgate.endurance("mx30lf2g18ac", blocks=1)) == "<Endurance of '2 Gbit SLC NAND, 3 V, x8', 1 row>"
    flash = floatgate.Mtd("am62a-w35n01jw")
    assert repr(flash) == repr(flash.fork()) == f"<Mtd of 'am62a-w35n01jw', 134217728 bytes, now {flash.now} ns>"
    assert repr(floatgate.SpiBus("stm32-n25q128a")) == "<SpiBus of 'stm32-n25q128a', now 0 ns>"
    assert repr(floatgate.BlockDevice("kingston-class-10")).startswith("<BlockDevice of 'kingston-class-10', 7948206080 bytes, now ")


def test_text_is_escaped_in_notebooks() -> None:
    table = floatgate.sweep("am62a-w35n01jw", [{"chip": "<b>"}, {"chip": "w35n01jw"}], "page read")
    assert "&lt;b&gt;" in table._repr_html_()


def test_ctrl_c_ends_long_work() -> None:
    # A shell without job control has its background commands ignore SIGINT, and Python keeps to that.
    script = """
import floatgate, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", flush=True)
try:
    floatgate.powercut("imx6-mx30lf2g18ac", mode="random", cuts=10**9, fast=True)
except KeyboardInterrupt:
    # What was cancelled leaves the cores to others.
    floatgate.powercut("imx6-mx30lf2g18ac", cuts=20, steps=30, fast=True)
    raise
"""
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline() == "ready\n"
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    _, complaint = run.communicate(timeout=60)
    assert complaint.rstrip().endswith("KeyboardInterrupt")


def test_pictures_are_drawn_on_axes_of_ones_own() -> None:
    from matplotlib.figure import Figure

    run = floatgate.speed("am62a-w35n01jw")
    ax = Figure().add_subplot()
    assert run.plot(ax) is ax
    assert [label.get_text() for label in ax.get_yticklabels()] == [test.name for test in run if test.bytes]
    widths = [bar.get_width() for bar in ax.patches]  # type: ignore[attr-defined,unused-ignore]
    assert widths == [test.kib_s for test in run if test.bytes]


def test_pictures_show_all_of_their_titles_and_bars() -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    trace = floatgate.trace("imx6-mx30lf2g18ac", "write-block")
    trace.__dict__["_data"] = {**trace._data, "title": "A board whose name is long " * 8}
    ax = trace.plot()
    figure = ax.figure
    assert isinstance(figure, Figure)
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call,unused-ignore]
    title = next(text for text in ax.get_children() if getattr(text, "get_text", str)() == trace._title())
    box = title.get_window_extent()
    assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
    legend = ax.get_legend()
    assert legend is not None
    assert legend.get_window_extent().x0 >= ax.get_window_extent().x1


def test_rows_are_found_by_their_names() -> None:
    run = floatgate.speed("am62a-w35n01jw", blocks=1)
    assert "page read" in run and run.rows[0] in run and "page hole" not in run
    with pytest.raises(KeyError, match="there are .*page read"):
        run["page hole"]
    probe = floatgate.probe("kingston-class-10", noise=0)
    assert "capacity" in probe and probe["capacity"] in probe and "nothing" not in probe
    table = floatgate.sweep("am62a-w35n01jw", [{}], "page read")
    assert "page read KiB/s" in table and "nothing" not in table


def test_documentation_has_all_names() -> None:
    assert floatgate.__version__ in command("--version")
    assert "``volumes``" in str(floatgate.fs.__doc__)
    with pytest.raises(floatgate.Error) as caught:
        floatgate.fs("am62a-w35n01jw", tests=["nothing"])
    for name in re.findall("`([a-z-]+)`", str(caught.value.help)):
        assert f"``{name}``" in str(floatgate.fs.__doc__), name


def test_a_probe_finds_a_fake_and_reads_files(tmp_path: Path) -> None:
    found = floatgate.probe("fake-limbo-32g", write=True)
    assert found["fake"].value == "limbo"
    shown = json.loads(command("probe", "fake-limbo-32g", "--write", "--json"))
    assert found.to_dict() == shown
    drive = tmp_path / "drive"
    drive.write_bytes(bytes(64 << 20))
    assert floatgate.probe(drive).capacity_bytes == 64 << 20
    with pytest.raises(floatgate.Error, match="only read"):
        floatgate.probe(drive, write=True)
    with pytest.raises(floatgate.Error, match="noise"):
        floatgate.probe("kingston-class-10", noise=-1)


def test_a_fit_is_that_of_the_command(tmp_path: Path) -> None:
    text = "page read 227 us\neraseblock write 3.4 MiB/s\n"
    (tmp_path / "results.txt").write_text(text)
    fitted = floatgate.fit("imx6-mx30lf2g18ac", text)
    shown = json.loads(command("fit", "imx6-mx30lf2g18ac", str(tmp_path / "results.txt"), "--json"))
    assert fitted.to_dict() == shown
    for path in (str(tmp_path / "results.txt"), tmp_path / "results.txt"):
        assert floatgate.fit("imx6-mx30lf2g18ac", path).to_dict() == shown
    with pytest.raises(floatgate.MissingFile, match="nosuch.txt"):
        floatgate.fit("imx6-mx30lf2g18ac", "nosuch.txt")
    with pytest.raises(floatgate.Error, match="Is a directory"):
        floatgate.fit("imx6-mx30lf2g18ac", tmp_path)
    assert all(parameter["low"] <= parameter["value"] for parameter in fitted.parameters)
    (tmp_path / "fitted.toml").write_text(fitted.toml)
    us = floatgate.speed(tmp_path / "fitted.toml")["page read"].us
    assert us == pytest.approx(227, rel=0.05)
    with pytest.raises(floatgate.Error):
        floatgate.fit("imx6-mx30lf2g18ac", "nothing of interest")


def test_arrow_streams_are_taken_without_pandas() -> None:
    import duckdb
    import polars
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

    run = floatgate.trace("am62a-w35n01jw", "erase")
    ends = [span.end_ns for span in run]
    assert pyarrow.table(run)["end_ns"].to_pylist() == ends
    assert polars.DataFrame(run)["end_ns"].to_list() == ends
    longest = duckdb.sql("select max(end_ns) from run")
    assert longest is not None and longest.fetchall() == [(max(ends),)]


def test_advice_on_a_card_is_for_what_it_is_used_for() -> None:
    """Filesystems, workloads and the state of the card are those of the command."""
    advice = floatgate.advise("kingston-class-10", filesystems=["f2fs"], workloads=["create"], state="used")
    assert "f2fs" in next(point.advice for point in advice if point.topic == "filesystem").lower()
    with pytest.raises(floatgate.Error, match="^state: "):
        floatgate.advise("kingston-class-10", state="half")  # type: ignore[arg-type]
    with pytest.raises(floatgate.Error, match="^filesystems: "):
        floatgate.advise("kingston-class-10", filesystems=["ufs"])


def test_a_study_is_found_by_the_words_of_its_command() -> None:
    run = floatgate.study("keystore", set={"firmware.tick_us": 100}, seed=1)
    asked = ["keystore", "--set", "firmware.tick_us=100", "--seed", "1"]
    assert run.to_dict() == json.loads(command(*asked, "--json"))
    assert [row["driver"] for row in run] == ["with delays"] * 7 + ["without delays"] * 7
    assert list(run.to_pandas().columns) == command(*asked, "--csv").splitlines()[0].split(",")
    sizes = floatgate.study("card amplification", blocks=64, over_provisioning=[28], collector=["fifo"])
    assert [row["collector"] for row in sizes] == ["fifo"]
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("keyring", {}, "no study is called 'keyring'|no study is called \"keyring\""),
        ("keystore", {"sead": 1}, "options of keystore: unknown field `sead`"),
        ("age", {"setup": "imx6-mx30lf2g18ac", "years": 1000}, "a number of years from 0.1 to 100"),
    ]
    for name, options, message in wrong:
        with pytest.raises(floatgate.Error, match=message):
            floatgate.study(name, **options)


def test_results_are_valid_by_their_schemas() -> None:
    jsonschema.Draft202012Validator.check_schema(floatgate.schema())
    assert json.loads(command("list", "schemas", "all")) == floatgate.schema()
    lines = [
        "speed am62a-w35n01jw",
        "compare am62a-w35n01jw kingston-class-10",
        "list parts --kind sd-card",
        "list am62a-w35n01jw",
        "ecc advise mt29f8g08maawc",
        "trace am62a-w35n01jw read-page",
        "papers p1",
        "powercut imx6-mx30lf2g18ac --cuts 5 --steps 8",
    ]
    for line in lines:
        result = json.loads(command(*line.split(), "--json"))
        for schema in (floatgate.schema(result["kind"]), floatgate.schema()):
            jsonschema.validate(result, schema)
    del result["floatgate"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(result, floatgate.schema(result["kind"]))
    with pytest.raises(floatgate.Error, match="no result is of the kind"):
        floatgate.schema("speeed")
