"""Files come out of images as they went in: by `Image`, and by fsspec."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import floatgate
import fsspec  # type: ignore[import-untyped,unused-ignore]
import pandas
import pyarrow  # type: ignore[import-untyped,unused-ignore]
import pytest
from conftest import LONG


@pytest.fixture(params=["ubi", "jffs2"])
def image(request: pytest.FixtureRequest) -> Path:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Path)
    return found


def test_files_are_listed_and_read(image: Path, tree: Path) -> None:
    opened = floatgate.Image(image)
    assert sorted(file.name for file in opened.ls("/")) == sorted(path.name for path in tree.iterdir())
    inside = {file.path: file for file in opened.ls(recursive=True)}
    assert set(inside) == {str(path.relative_to(tree)) for path in tree.rglob("*")}
    assert (inside["data/long"].size, inside["data/long"].type) == (len(LONG), "file")
    assert inside["passwd"].target == "etc/passwd"
    with opened.open("/data/long") as file:
        assert file.read() == LONG
        assert file.seek(-256, io.SEEK_END) == len(LONG) - 256
        assert file.read() == LONG[-256:]
        assert file.read(1) == b""
    assert opened.open("/data/empty").read() == b""


def test_symbolic_links_are_followed(image: Path) -> None:
    opened = floatgate.Image(image)
    assert opened.open("/passwd").read().startswith(b"root")
    assert opened.open("/data/../passwd").read().startswith(b"root")
    with pytest.raises(OSError, match="symbolic links"):
        opened.open("/loop")
    with pytest.raises(IsADirectoryError):
        opened.open("/etc")


def test_everything_is_extracted(image: Path, tree: Path, tmp_path: Path) -> None:
    extracted = floatgate.Image(image).extract(tmp_path / "out", owner=False)
    assert (extracted.rows, extracted.bytes) == ([], sum(p.stat().st_size for p in tree.rglob("*") if p.is_file() and not p.is_symlink()))
    assert (tmp_path / "out/data/long").read_bytes() == LONG
    floatgate.Image(image).extract(tmp_path / "out.tar")
    assert (tmp_path / "out.tar").stat().st_size > len(LONG)
    with pytest.raises(floatgate.Error, match="out"):
        floatgate.Image(image).extract(tmp_path / "out")


@pytest.mark.parametrize(
    ("call", "said", "help"),
    [
        ("floatgate.Image(image).extract(target)", "target: ", "with room, or as a tar; what was extracted until then stays there"),
        ("floatgate.Image(image).extract(target + '.tar')", "target.tar: ", "no file can become that large"),
        ("floatgate.Image.build(tree, target, part='mx30lf2g18ac')", "target: ", ""),
    ],
)
def test_a_disk_without_room_is_told_with_the_file(ubi: Path, tree: Path, tmp_path: Path, call: str, said: str, help: str) -> None:
    # No file may be larger than 4 KiB, as if the disk were full then.
    code = (
        "import floatgate, resource, signal, sys\n"
        "image, tree, target = sys.argv[1:]\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        f"try:\n    {call}\nexcept floatgate.Error as error:\n    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code, str(ubi), str(tree), str(tmp_path / "target")], capture_output=True, text=True)
    message, _, advice = run.stdout.partition("\nhelp: ")
    assert said in message, run.stderr
    assert "large" in message and help in advice, run.stdout


def test_images_are_described_and_checked(image: Path) -> None:
    opened = floatgate.Image(image)
    assert len(opened.info()) == 1
    for result in (opened.info(), opened.check()):
        assert pyarrow.table(result).num_rows == len(result)
    assert opened.check().outcome == "clean"


def test_damage_is_found(ubi: Path, tmp_path: Path) -> None:
    data = bytearray(ubi.read_bytes())
    at = data.index(b"UBI!", 3 << 17)
    data[at + 32] ^= 1
    broken = tmp_path / "broken.ubi"
    broken.write_bytes(data)
    assert floatgate.Image(broken).check().outcome != "clean"


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x" * 4096)
    for name in ("x", "missing"):
        with pytest.raises(floatgate.Error, match=name):
            floatgate.Image(tmp_path / name)


def test_files_that_are_not_there_are_named(image: Path) -> None:
    with pytest.raises(floatgate.Error, match="nothing"):
        floatgate.Image(image).open("/nothing")


@pytest.mark.parametrize("protocol", ["ubifs", "jffs2"])
def test_fsspec_reads_out_of_images(protocol: str, request: pytest.FixtureRequest, tree: Path) -> None:
    path = str(request.getfixturevalue("ubi" if protocol == "ubifs" else "jffs2"))
    with fsspec.open(f"{protocol}:///etc/passwd", image=path) as file:
        assert file.read() == (tree / "etc/passwd").read_bytes()
    with fsspec.open(f"{protocol}:///etc/passwd", "rt", image=path) as file:
        assert file.readline().startswith("root")
    fs = fsspec.filesystem(protocol, image=path)
    assert sorted(fs.find("/")) == ["/data/empty", "/data/long", "/data/table.csv", "/etc/passwd", "/loop", "/passwd"]
    assert fs.glob("/data/*.csv") == ["/data/table.csv"]
    assert fs.info("/data")["type"] == "directory"
    link = fs.info("/passwd")
    assert (link["type"], link["destination"], link["name"]) == ("link", "etc/passwd", "/passwd")
    assert [entry for entry in fs.ls("/") if entry["name"] == "/passwd"] == [link]
    assert (fs.isfile("/passwd"), fs.isdir("/passwd"), fs.isdir("/data"), fs.isfile("/loop")) == (True, False, True, False)
    assert fs.cat("/passwd") == (tree / "etc/passwd").read_bytes()
    assert fs.cat_file("/data/long", 100, 300) == LONG[100:300]
    assert (fs.exists("/etc"), fs.exists("/nothing"), fs.isfile("/passwd/x")) == (True, False, False)
    with pytest.raises(FileNotFoundError):
        fs.ls("/nothing")
    with pytest.raises(NotImplementedError):
        fs.open("/etc/passwd", "wb")
    table = pandas.read_csv(f"{protocol}:///data/table.csv", storage_options={"image": path})
    assert table["kib_s"].tolist() == [11015.5, 2000.25]


@pytest.mark.parametrize("wrong", [5, None, ["/"]])
def test_paths_of_another_type_are_named(ubi: Path, wrong: Any) -> None:
    image = floatgate.Image(ubi)
    edit = image.edit()
    with edit:
        for ask in (image.ls, image.stat, image.open, image.resolve, edit.mkdir, edit.remove):
            with pytest.raises(TypeError, match="^path: expected"):
                ask(wrong)


def test_what_is_not_there_is_a_missing_file(ubi: Path) -> None:
    image = floatgate.Image(ubi)
    for ask in (image.open, image.ls):
        with pytest.raises(FileNotFoundError, match="/nothing"):
            ask("/nothing")
    with pytest.raises(FileNotFoundError, match="nosuch"), image.edit() as edit:
        edit.put("nosuch", "/")
    with pytest.raises(FileNotFoundError, match="/nothing"), image.edit() as edit:
        edit.remove("/nothing")


@pytest.mark.parametrize("format", ["ubi", "ubifs", "jffs2"])
def test_images_are_built_and_changed(format: str, tree: Path, tmp_path: Path) -> None:
    path, changed = tmp_path / "image", tmp_path / "changed"
    flash = {"setup": "stm32-n25q128a"} if format == "jffs2" else {"part": "mx30lf2g18ac"}
    built = floatgate.Image.build(tree, path, format=format, owner=(0, 0), latest=10**9, **flash)  # type: ignore[arg-type]
    assert (built.rows, built.image_bytes) == ([], path.stat().st_size)
    (tmp_path / "hostname").write_text("board\n")
    image = floatgate.Image(path, peb_size=4096 if format == "jffs2" else None)
    was = path.read_bytes()
    with image.edit(changed, grow=format == "jffs2") as edit:
        edit.put(tmp_path / "hostname", "/etc/hostname")
        edit.remove("/data", recursive=True)
        edit.mkdir("/var/lib", parents=True)
        edit.symlink("../etc/hostname", "/var/name")
        edit.rename("/etc/passwd", "/etc/users")
        edit.chmod("/etc/users", 0o600)
        edit.chown("/etc/users", 3, 4)
    assert edit.result is not None and edit.result.rows == []
    assert path.read_bytes() == was
    new = floatgate.Image(changed)
    assert {file.path for file in new.ls(recursive=True)} == {
        "etc", "etc/hostname", "etc/users", "loop", "passwd", "var", "var/lib", "var/name",
    }
    assert new.open("/var/name").read() == b"board\n"
    users = new.stat("/etc/users")
    assert (users.permissions, users.uid, users.gid) == (0o600, 3, 4)
    # In place, and seen by the object that has read it before.
    assert new.check().outcome == "clean"
    with new.edit() as edit:
        edit.remove("/var/name")
    assert not any(file.path == "var/name" for file in new.ls(recursive=True))


def test_changes_are_made_together_or_not_at_all(ubi: Path, tmp_path: Path) -> None:
    path = tmp_path / "image.ubi"
    path.write_bytes(ubi.read_bytes())
    image = floatgate.Image(path)
    with pytest.raises(floatgate.Error, match="nothing") as caught:
        with image.edit() as edit:
            edit.remove("/etc/passwd")
            edit.remove("/nothing")
    assert caught.value.help is not None
    with pytest.raises(ZeroDivisionError):
        with image.edit() as edit:
            edit.remove("/etc/passwd")
            raise ZeroDivisionError
    assert path.read_bytes() == ubi.read_bytes()
    assert image.open("/etc/passwd").read().startswith(b"root")


def test_errors_of_images_have_advice(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x" * 4096)
    for attempt in (
        lambda: floatgate.Image(tmp_path / "x"),
        lambda: floatgate.Image.build(tmp_path, tmp_path / "out"),
        lambda: floatgate.Image.build(tmp_path, tmp_path / "out", part="mx30lf2g18ac", format="ext4"),  # type: ignore[arg-type]
        lambda: floatgate.Image.build(tmp_path / "missing", tmp_path / "out", part="mx30lf2g18ac"),
        lambda: floatgate.Image.build(tmp_path, tmp_path / "no/out", part="mx30lf2g18ac"),
    ):
        with pytest.raises(floatgate.Error) as caught:
            attempt()
        assert caught.value.help
    assert not (tmp_path / "out").exists()


def test_permissions_are_numbers_or_texts(ubi: Path) -> None:
    with pytest.raises(TypeError, match=r"^mode: expected an int or a str, got 0.5"), floatgate.Image(ubi).edit() as edit:
        edit.chmod("/etc", 0.5)  # type: ignore[arg-type]


def test_advice_on_images_names_arguments(tree: Path, ubi: Path, tmp_path: Path) -> None:
    path = tmp_path / "image"
    floatgate.Image.build(tree, path, format="jffs2", setup="stm32-n25q128a")
    (tmp_path / "large").write_bytes(bytes(range(256)) * 4096)
    with pytest.raises(floatgate.Error) as caught, floatgate.Image(path).edit() as edit:
        edit.put(tmp_path / "large", "/large")
    assert "`peb_size`" in str(caught.value.help)
    image = floatgate.Image(path, peb_size=4096)
    with pytest.raises(floatgate.Error) as caught, image.edit() as edit:
        edit.put(tmp_path / "large", "/large")
    assert "`grow=True`" in str(caught.value.help)
    with pytest.raises(floatgate.Error) as caught:
        floatgate.Image(ubi, volume="nothing").ls("/")
    assert "`volume`" in str(caught.value.help) and "--" not in str(caught.value.help)
    with pytest.raises(floatgate.Error) as caught:
        floatgate.Image(ubi).ls("/nothing")
    assert caught.value.help == "`Image.ls()` lists what is there"


def test_an_image_without_room_is_refused_with_its_argument(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_bytes(bytes(number * number % 251 for number in range(1 << 15)))
    with pytest.raises(floatgate.ArgumentError) as caught:
        floatgate.Image.build(tree, tmp_path / "image", format="littlefs", size=1 << 14)
    assert caught.value.help == "a larger `size` has more room"


def test_encrypted_files_are_read_with_their_key(tmp_path: Path) -> None:
    sample = Path(__file__).parents[2] / "crates/image/tests/readonly/data/encrypted.ext4.gz"
    path = tmp_path / "card.ext4"
    path.write_bytes(gzip.decompress(sample.read_bytes()))
    master = bytes((byte * 7 + 3) % 256 for byte in range(64))
    file = tmp_path / "key"
    file.write_bytes(master)
    for key in (master, file, [bytes(64), master]):
        image = floatgate.Image(path, key=key)
        assert image.open("/secret/hostname").read() == b"board\n"
    locked = floatgate.Image(path)
    assert {file.encrypted for file in locked.ls("/secret")} == {True}
    with pytest.raises(floatgate.MissingFile, match="the names there are encrypted, and no key was given") as caught:
        locked.open("/secret/hostname")
    assert "`key` of `Image`" in str(caught.value.help)
    with pytest.raises(floatgate.MissingFile, match="the names there are encrypted"):
        locked.ls("/secret/hostname")
    with pytest.raises(floatgate.ArgumentError, match="16 to 64 bytes"):
        floatgate.Image(path, key=b"short")
    with pytest.raises(floatgate.MissingFile, match="key"):
        floatgate.Image(path, key=tmp_path / "nothing")
