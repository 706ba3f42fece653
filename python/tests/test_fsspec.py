"""fsspec's own tests of reading, and tables that pandas, duckdb and Dask read out of images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import floatgate
import fsspec  # type: ignore[import-untyped,unused-ignore]
import pandas
import pytest
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped,unused-ignore]
from fsspec.tests.abstract import AbstractFixtures, AbstractGetTests  # type: ignore[import-untyped,unused-ignore]

#: The scenarios of fsspec's tests, which make them on a filesystem that can be written to.
SCENARIOS = (
    "_bulk_operations_scenario_0",
    "_glob_edge_cases_files",
    "_dir_and_file_with_same_name_prefix",
    "_10_files_with_hashed_names",
)


def _join(*parts: str) -> str:
    return "/".join(parts)


@pytest.fixture(scope="session")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with each scenario in a folder of its name."""
    root = tmp_path_factory.mktemp("scenarios")
    for scenario in SCENARIOS:
        getattr(AbstractFixtures(), scenario)(LocalFileSystem(auto_mkdir=True), _join, str(root / scenario))
    return root


@pytest.fixture(scope="session", params=["ubifs", "jffs2"])
def files(request: pytest.FixtureRequest, scenarios: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The scenarios in an image."""
    path = tmp_path_factory.mktemp("image") / "scenarios"
    if request.param == "ubifs":
        floatgate.Image.build(scenarios, path, part="mx30lf2g18ac")
    else:
        floatgate.Image.build(scenarios, path, format="jffs2", setup="stm32-n25q128a")
    return fsspec.filesystem(request.param, image=str(path))


class TestGet(AbstractFixtures, AbstractGetTests):  # type: ignore[misc,unused-ignore]
    """All of fsspec's tests that copy from a filesystem; the others write to it."""

    # This one makes its files itself; `test_directories_are_copied_whole` is the same on an image.
    test_get_directory_recursive = None

    @pytest.fixture
    def fs(self, files: Any) -> Any:
        return files

    @pytest.fixture
    def fs_path(self) -> str:
        return ""

    @pytest.fixture
    def fs_bulk_operations_scenario_0(self) -> str:
        return "/_bulk_operations_scenario_0/source"

    @pytest.fixture
    def fs_glob_edge_cases_files(self) -> str:
        return "/_glob_edge_cases_files/source"

    @pytest.fixture
    def fs_dir_and_file_with_same_name_prefix(self) -> str:
        return "/_dir_and_file_with_same_name_prefix/source"

    @pytest.fixture
    def fs_10_files_with_hashed_names(self) -> str:
        return "/_10_files_with_hashed_names/source"


def test_directories_are_copied_whole(files: Any, scenarios: Path, tmp_path: Path) -> None:
    files.get("/_bulk_operations_scenario_0", str(tmp_path / "target"), recursive=True)
    expected = scenarios / "_bulk_operations_scenario_0"
    copied = {path.relative_to(tmp_path / "target") for path in (tmp_path / "target").rglob("*")}
    assert copied == {path.relative_to(expected) for path in expected.rglob("*")}


def test_links_that_lead_nowhere_are_as_in_a_local_filesystem(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "etc").mkdir(parents=True)
    (source / "etc/passwd").write_text("root")
    for name, target in (("good", "passwd"), ("dangling", "nothing"), ("loop", "loop"), ("folder", "../etc")):
        (source / "etc" / name).symlink_to(target)
    floatgate.Image.build(source, tmp_path / "image", part="mx30lf2g18ac")
    image, local = fsspec.filesystem("ubifs", image=str(tmp_path / "image")), LocalFileSystem()
    for name in ("good", "dangling", "loop", "folder", "none", "passwd"):
        for ask in ("exists", "lexists", "isfile", "isdir"):
            assert getattr(image, ask)(f"/etc/{name}") == getattr(local, ask)(f"{source}/etc/{name}"), (ask, name)
    image.get("/etc", str(tmp_path / "target"), recursive=True)
    copied = {path.name: path.is_file() and path.read_text() for path in (tmp_path / "target").iterdir()}
    assert copied == {"passwd": "root", "good": "root", "folder": False}
    with pytest.raises(FileNotFoundError):
        image.get("/etc/dangling", str(tmp_path / "one"))
    with pytest.raises(OSError, match="nothing|symbolic links"):
        image.get("/etc", str(tmp_path / "other"), recursive=True, on_error="raise")


def test_writing_is_refused(files: Any) -> None:
    writes: list[Callable[[], Any]] = [lambda: files.pipe("/x", b""), lambda: files.open("/x", "xb"), lambda: files.touch("/x"), lambda: files.mkdir("/x"), lambda: files.makedirs("/x")]
    folder = "/_glob_edge_cases_files"
    file = files.find(folder)[0]
    writes += [lambda: files.rm(file), lambda: files.rm(folder, recursive=True), lambda: files.mv(file, "/x"), lambda: files.cp(file, "/x")]
    for write in writes:
        with pytest.raises(NotImplementedError, match="images are read-only here"):
            write()


def test_a_directory_is_not_opened(files: Any) -> None:
    with pytest.raises(IsADirectoryError):
        files.open("/_glob_edge_cases_files")


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A raw NAND dump with a CSV and a Parquet file in a UBIFS."""
    folder = tmp_path_factory.mktemp("tables")
    (folder / "log").mkdir()
    table = pandas.DataFrame({"at": range(5000), "celsius": [20.5 + at % 7 for at in range(5000)]})
    table.to_csv(folder / "log/sensor.csv", index=False)
    table.to_parquet(folder / "log/sensor.parquet")
    path = folder / "image.ubi"
    floatgate.Image.build(folder / "log", path, part="mx30lf2g18ac")
    # Onto the simulated chip and off it again, as a programmer and a reader do.
    flash = floatgate.Mtd("imx6-mx30lf2g18ac")
    size, block = path.stat().st_size, flash.geometry.erase_bytes
    whole = path.read_bytes().ljust(-(-size // block) * block, b"\xff")
    for addr in range(0, len(whole), block):
        flash.write(addr, whole[addr : addr + block])
    path.write_bytes(flash.read(0, len(whole)))
    return path


def test_pandas_and_duckdb_read_out_of_a_dump(dump: Path) -> None:
    options = {"image": str(dump)}
    table = pandas.read_csv("ubifs:///sensor.csv", storage_options=options)
    assert (len(table), table["at"].sum()) == (5000, 5000 * 4999 // 2)
    assert pandas.read_parquet("ubifs:///sensor.parquet", storage_options=options).equals(table)
    with duckdb.connect() as connection:
        connection.register_filesystem(fsspec.filesystem("ubifs", image=str(dump)))
        found = connection.execute("select count(*), max(celsius) from 'ubifs:///sensor.parquet'").fetchone()
    assert found == (5000, 26.5)


def _built(folder: Path, name: str, text: str, **flash: Any) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "data.csv").write_text(text)
    path = folder / f"{name}.img"
    floatgate.Image.build(folder / name, path, **flash)
    return path


def test_duckdb_takes_both_filesystems(tmp_path: Path) -> None:
    ubifs = _built(tmp_path, "u", "a\n1\n", part="mx30lf2g18ac")
    jffs2 = _built(tmp_path, "j", "a\n2\n", format="jffs2", setup="stm32-n25q128a")
    with duckdb.connect() as connection:
        connection.register_filesystem(fsspec.filesystem("ubifs", image=str(ubifs)))
        connection.register_filesystem(fsspec.filesystem("jffs2", image=str(jffs2)))
        query = "select * from 'ubifs:///data.csv' union all select * from 'jffs2:///data.csv' order by 1"
        assert connection.execute(query).fetchall() == [(1,), (2,)]


@pytest.mark.parametrize("protocol", ["ubifs", "jffs2"])
def test_an_edit_is_seen_by_a_filesystem_that_is_open(protocol: str, tmp_path: Path) -> None:
    flash = {"part": "mx30lf2g18ac"} if protocol == "ubifs" else {"format": "jffs2", "setup": "stm32-n25q128a"}
    path = _built(tmp_path, "image", "old", **flash)
    files = fsspec.filesystem(protocol, image=str(path))
    assert files.cat("/data.csv") == b"old"
    (tmp_path / "new").write_text("new")
    # A JFFS2 as small as this tells no size of its eraseblocks, and has no free one.
    peb_size = 65536 if protocol == "jffs2" else None
    with floatgate.Image(path, peb_size=peb_size).edit(grow=protocol == "jffs2") as edit:
        edit.put(tmp_path / "new", "/data.csv")
        edit.put(tmp_path / "new", "/more")
    assert files.cat("/data.csv") == b"new"
    assert sorted(files.ls("/", detail=False)) == ["/data.csv", "/more"]
    # Another image takes its place. fsspec gives out the filesystem that it has made before.
    _built(tmp_path, "other", "alt", **flash).replace(path)
    assert fsspec.filesystem(protocol, image=str(path)).cat("/data.csv") == b"alt"
    files.invalidate_cache()
    assert files.cat("/data.csv") == b"alt"
    path.unlink()
    with pytest.raises(floatgate.MissingFile):
        files.cat("/data.csv")


def test_dask_reads_out_of_a_dump(dump: Path) -> None:
    bag = pytest.importorskip("dask.bag")
    lines = bag.read_text("ubifs:///sensor.csv", storage_options={"image": str(dump)})
    assert lines.count().compute(scheduler="synchronous") == 5001


def test_an_image_may_be_at_any_url(tmp_path: Path) -> None:
    built = _built(tmp_path, "image", "a\n1\n", part="mx30lf2g18ac")
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/dumps/image.ubi", built.read_bytes())
    for protocol in ("ubifs", "jffs2"):
        files = fsspec.filesystem(protocol, image="memory://dumps/image.ubi")
        assert files.cat("/data.csv") == b"a\n1\n"
    assert fsspec.filesystem("ubifs", image=f"file://{built}").cat("/data.csv") == b"a\n1\n"
    with fsspec.open("ubifs:///data.csv::memory://dumps/image.ubi") as file:
        assert file.read() == b"a\n1\n"
    with pytest.raises(floatgate.Error, match="there is no image"):
        fsspec.filesystem("ubifs")


@pytest.mark.parametrize("place", ["file", "url"])
def test_a_writable_filesystem_changes_the_image(place: str, tmp_path: Path) -> None:
    built = _built(tmp_path, "image", "old", part="mx30lf2g18ac")
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/dumps/written.ubi", built.read_bytes())
    image = str(built) if place == "file" else "memory://dumps/written.ubi"
    files = fsspec.filesystem("ubifs", image=image, writable=True, skip_instance_cache=True)
    files.makedirs("/var/log")
    files.pipe("/var/log/one", b"one")
    with files.open("/var/log/two", "wb") as file:
        file.write(b"t" * 100_000)
    with files.open("/var/log/one", "ab") as file:
        file.write(b" and more")
    files.mv("/data.csv", "/moved.csv")
    files.cp("/moved.csv", "/var/copied.csv")
    files.touch("/empty")
    with pytest.raises(ZeroDivisionError), files.open("/var/log/none", "wb") as file:
        file.write(b"half")
        raise ZeroDivisionError
    with pytest.raises(FileExistsError):
        files.open("/empty", "xb")
    with pytest.raises(OSError, match="not empty"):
        files.rmdir("/var/log")
    files.rm("/var/log/two")
    if place == "url":
        built.write_bytes(memory.cat_file("/dumps/written.ubi"))
    found = floatgate.Image(built)
    assert {file.path for file in found.ls("/", recursive=True) if file.type == "file"} == {
        "empty",
        "moved.csv",
        "var/copied.csv",
        "var/log/one",
    }
    assert found.open("/var/log/one").read() == b"one and more"
    one = found.stat("/var/log/one")
    assert (one.permissions, one.uid, one.gid) == (0o644, 0, 0)
    assert found.check().outcome == "clean"
