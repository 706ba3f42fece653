"""Images that the tests read: made by the command, of which FLOATGATE is the path."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

#: A file longer than a block, with every byte value.
LONG = bytes(range(256)) * 100


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as images hold it."""
    root = tmp_path_factory.mktemp("tree")
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
    (root / "data").mkdir()
    (root / "data/table.csv").write_text("mode,kib_s\n1S-8S-8S,11015.5\n1S-1S-1S,2000.25\n")
    (root / "data/long").write_bytes(LONG)
    (root / "data/empty").write_bytes(b"")
    (root / "passwd").symlink_to("etc/passwd")
    (root / "loop").symlink_to("loop")
    return root


def _build(tree: Path, out: Path, *options: str) -> Path:
    command = [os.environ["FLOATGATE"], "image", "build", str(tree), "-o", str(out), *options]
    subprocess.run(command, check=True, capture_output=True)
    return out


@pytest.fixture(scope="session")
def ubi(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A UBI image with a UBIFS."""
    return _build(tree, tmp_path_factory.mktemp("ubi") / "dump.ubi", "--part", "mx30lf2g18ac")


@pytest.fixture(scope="session")
def jffs2(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A JFFS2."""
    out = tmp_path_factory.mktemp("jffs2") / "dump.jffs2"
    return _build(tree, out, "--format", "jffs2", "--setup", "stm32-n25q128a")
