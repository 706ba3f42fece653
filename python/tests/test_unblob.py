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

    assert _unblob.unblob_register_handlers() == []
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
