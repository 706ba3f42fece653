"""The notebooks of the documentation run from the first cell to the last, without Jupyter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs/notebooks").glob("*.ipynb"))


def _cells(notebook: Path) -> list[dict[str, Any]]:
    return list(json.loads(notebook.read_text())["cells"])


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 5


def _run(notebook: Path) -> tuple[dict[str, Any], list[Any]]:
    """The names of a notebook after its last cell, and the axes of all figures. Below each cell Jupyter shows its figures, and closes them."""
    names: dict[str, Any] = {}
    axes: list[Any] = []
    for number, cell in enumerate(_cells(notebook)):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec"), names)
            axes += [drawn for figure in plt.get_fignums() for drawn in plt.figure(figure).axes]
            plt.close("all")
    return names, axes


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_draws(notebook: Path) -> None:
    names, axes = _run(notebook)
    assert axes and all(drawn.has_data() for drawn in axes)
    if notebook.stem == "ten-years":
        heat = names["heat"].astype(str)
        assert len(heat.drop_duplicates()) == len(heat), heat
        assert heat["survived"].tolist() == ["True", "True", "True", "False"], heat


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_with_what_it_prints_and_a_picture(notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`scripts/draw-notebooks` stores them."""
    outputs = [output for cell in _cells(notebook) for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    _run(notebook)
    assert capsys.readouterr().out == "".join("".join(output.get("text", [])) for output in outputs)


def test_fakes_are_told_from_real_cards(capsys: pytest.CaptureFixture[str]) -> None:
    notebook = next(path for path in NOTEBOOKS if path.stem == "is-my-card-a-fake")
    _run(notebook)
    verdicts = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert all(verdicts[name].startswith("holds all") for name in ("kingston-class-10", "sandisk-extreme"))
    assert "wraps around at 8.0 GiB" in verdicts["fake-wraps-32g"]
    assert "forgets at 8.0 GiB" in verdicts["fake-limbo-32g"]
