"""The plugin for unblob: its handlers find images, floatgate extracts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import floatgate
import pytest

unblob_ubi = pytest.importorskip("unblob.handlers.filesystem.ubi")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one file."""
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "greeting").write_text("hello")
    return folder


def test_handlers_of_unblob_extract_with_floatgate(root: Path, tmp_path: Path) -> None:
    from floatgate import _unblob

    assert _unblob.unblob_register_handlers() == list(_unblob.OWN_HANDLERS)
    extractor: Any = unblob_ubi.UBIHandler.EXTRACTOR
    assert extractor.get_dependencies() == []
    image = tmp_path / "image.ubi"
    floatgate.Image.build(root, image, part="mt29f2g08aad")
    out = tmp_path / "out"
    out.mkdir()
    assert extractor.extract(image, out).reports == []
    assert (out / "greeting").read_text() == "hello"


def test_what_is_no_image_is_an_error_of_unblob(tmp_path: Path) -> None:
    from floatgate import _unblob
    from unblob.models import ExtractError  # type: ignore[import-not-found,unused-ignore]

    bad = tmp_path / "bad"
    bad.write_bytes(bytes(5000))
    with pytest.raises(ExtractError):
        _unblob.FloatgateExtractor().extract(bad, tmp_path / "out")


def test_filesystems_that_unblob_does_not_find(root: Path, tmp_path: Path) -> None:
    from floatgate import _unblob
    from unblob.file_utils import File  # type: ignore[import-not-found,unused-ignore]

    for name, format in (("littlefs", "littlefs"), ("spiffs", "spiffs")):
        image = tmp_path / name
        floatgate.Image.build(root, image, format=format, size=65536)  # type: ignore[arg-type]
        handler: Any = next(handler() for handler in _unblob.OWN_HANDLERS if name == handler.NAME)
        chunk = handler.calculate_chunk(File.from_path(image), 0)
        assert (chunk.start_offset, chunk.end_offset) == (0, 65536)
        out = tmp_path / f"{name}_extract"
        assert handler.extract(image, out).reports == []
        assert (out / "greeting").read_text() == "hello"
        bad = tmp_path / "noise"
        bad.write_bytes(bytes(range(256)) * 256)
        assert handler.calculate_chunk(File.from_path(bad), 0) is None


def test_the_extractor_of_unblob_gets_what_floatgate_cannot_read(tmp_path: Path) -> None:
    from floatgate import _unblob

    class Other:
        def extract(self, inpath: Path, outdir: Path) -> None:
            (outdir / "other").write_bytes(inpath.read_bytes()[:4])

    bad, out = tmp_path / "bad", tmp_path / "out"
    bad.write_bytes(b"some" * 2000)
    _unblob.FloatgateExtractor(Other()).extract(bad, out)
    assert (out / "other").read_bytes() == b"some"
