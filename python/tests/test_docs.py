"""Docstrings: each public function says what it returns and raises, and its example runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Callable

import floatgate
import pytest

MODULES = ["__init__", "_device", "_measured", "_pytest", "_result", "_store", "_studies", "_sweep", "check"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    module = floatgate if name == "__init__" else importlib.import_module(f"floatgate.{name}")
    # Examples use the names of the package as a reader imports them.
    names = {public: getattr(floatgate, public) for public in floatgate.__all__}
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, tried = doctest.testmod(module, extraglobs={**names, "floatgate": floatgate}, optionflags=flags)
    assert tried > 0 and failed == 0


def _public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions and methods of the package that do not only return an attribute."""
    for name in floatgate.__all__:
        value = getattr(floatgate, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value) and name in ("Mtd", "NandBus", "SpiBus", "BlockDevice", "Image", "Edit"):
            for method, function in inspect.getmembers(value, callable):
                if not method.startswith("_"):
                    yield f"{name}.{method}", function


@pytest.mark.parametrize(("name", "function"), list(_public()))
def test_a_docstring_is_complete(name: str, function: Callable[..., Any]) -> None:
    text = inspect.getdoc(function) or ""
    returns = inspect.signature(function).return_annotation
    wanted = [] if name in ("setups", "parts", "Mtd.fork", "NandBus.fork", "SpiBus.fork", "BlockDevice.fork") else ["Raises"]
    if name.endswith("cancel_cut"):
        wanted = []
    if returns not in (None, "None"):
        wanted.append("Returns")
    missing = [section for section in [*wanted, "Examples"] if f"\n{section}\n---" not in text]
    assert missing == []


def test_the_package_is_imported_fast() -> None:
    """Importing costs no more than Python's own modules do: 0.05 s on a quiet machine. Names of modules are what a test can count."""
    code = "import sys, floatgate; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert [name for name in done.stdout.split() if name.startswith("floatgate")] == ["floatgate"]
    code = "import sys, floatgate; floatgate.speed; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pandas", "numpy", "matplotlib", "pyarrow", "fsspec", "dask", "pytest"} & set(done.stdout.split())


def test_errors_are_those_of_python_too() -> None:
    with pytest.raises(ValueError, match="no setup"):
        floatgate.speed("nosuch")
    with pytest.raises(ValueError, match="blokcs"):
        floatgate.sweep("am62a-w35n01jw", {"bus.mode": ["1S-1S-8S"]}, blokcs=3)
    with pytest.raises(FileNotFoundError):
        floatgate.speed("nosuch.toml")
    flash = floatgate.Mtd("am62a-w35n01jw")
    flash.fail(0)
    with pytest.raises(floatgate.FlashError) as caught:
        flash.erase(0)
    assert not isinstance(caught.value, ValueError) and caught.value.kind == "erase failed"
    flash.cut(1)
    with pytest.raises(floatgate.PowerLost, match="restart"):
        flash.erase(flash.geometry.erase_bytes)
