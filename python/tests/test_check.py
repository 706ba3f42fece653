"""The check of an image against a budget, as the action and the recipes run it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import floatgate
import pytest
from floatgate import check

ROOT = Path(__file__).parents[2]

#: A small partition, so that a test takes a second.
SMALL = ["--setup", "imx6-mx30lf2g18ac", "--set", "partition.size=16MiB", "--set", "filesystem.ubi_bad_limit_of_partition=true"]


def test_an_image_within_its_budget(ubi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    budget = ["--max-size", "16MiB", "--max-attach-ms", "60000", "--min-years", "0.5", "--power-cuts", "10"]
    assert check.main([str(ubi), *SMALL, *budget, "--json"]) == 0
    verdicts = json.loads(capsys.readouterr().out)
    assert [verdict["check"] for verdict in verdicts] == ["image", "size", "attach", "life", "power cuts"]
    assert all(verdict["good"] for verdict in verdicts)
    assert float(verdicts[2]["found"].split()[0]) > 1
    assert (tmp_path / "summary.md").read_text().count("| ok |") == 5


def test_an_image_beyond_its_budget(ubi: Path, jffs2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([str(ubi), "--max-size", "1KiB"]) == 1
    assert re.search(r"^FAIL size: \d+ bytes \(budget: 1024 bytes\)$", capsys.readouterr().out, re.M)
    assert check.main([str(ubi), *SMALL, "--max-attach-ms", "0.1"]) == 1
    assert check.main([str(jffs2), "--max-size", "16MiB"]) == 0


def test_a_damaged_image_fails(ubi: Path, tmp_path: Path) -> None:
    damaged = bytearray(ubi.read_bytes())
    for place in range(len(damaged) // 4, len(damaged), 4096):
        damaged[place] ^= 0x55
    (tmp_path / "damaged.ubi").write_bytes(damaged)
    assert check.main([str(tmp_path / "damaged.ubi")]) == 1


def test_wrong_arguments(ubi: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([str(ubi), "--power-cuts", "3"]) == 2
    assert "need a board" in capsys.readouterr().err
    assert check.main(["nosuch.ubi"]) == 2
    with pytest.raises(SystemExit):
        check.main([str(ubi), "--max-size", "large"])
    with pytest.raises(floatgate.Error):
        check.check(str(ubi), "nosuch", power_cuts=1)


def test_the_action_knows_all_options() -> None:
    text = (ROOT / "action.yml").read_text()
    inputs = set(re.findall(r"^  ([a-z-]+):$", text.split("\nruns:")[0], re.M))
    used = set(re.findall(r"\$\{\{ inputs\.([a-z-]+) \}\}", text))
    assert inputs == used and {"image", "setup", "max-size", "max-attach-ms", "min-years", "power-cuts"} <= inputs
    with pytest.raises(SystemExit):
        check.main(["--help"])
    options = set(re.findall(r"options\+?=\((--[a-z-]+)", text)) | {"--power-cuts"}
    source = Path(check.__file__).read_text()
    assert all(f'"{option}"' in source for option in options)
