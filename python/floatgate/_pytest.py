"""Plugin of pytest: simulated flash as a fixture, and power cuts as a parametrisation.

The fixture ``floatgate_flash`` is an `Mtd`, ``floatgate_card`` a `BlockDevice`, and ``floatgate_cut`` a `PowerCut` of the flash, with
which a test runs once for each power cut. The markers ``floatgate`` and ``floatgate_cuts`` choose setup and cuts.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional

import pytest

if TYPE_CHECKING:
    from ._device import BlockDevice, Mtd

#: Flash operations that are cut, and shares of them that are over then, unless the marker names others.
OPERATIONS, SHARES = range(1, 9), (0.5,)

MARKERS = (
    "floatgate(setup, set=None, corner='typ', seed=0, bad_blocks=0): setup of the fixture floatgate_flash",
    "floatgate_card(card, set=None, seed=0): card of the fixture floatgate_card",
    "floatgate_cuts(operations, shares=(0.5,)): run the test once for each power cut of the fixture floatgate_cut",
)


class PowerCut:
    """A power cut of a flash, for a ``with`` block.

    Power goes in the flash operation of that number in the block. The block ends there, and after it power is back and the flash can be
    mounted again.

    Attributes
    ----------
    operation : int
        Number of the program or erase, counted from 1.
    share : float
        Share of it that is over, 0 to 1.
    happened : bool
        False when the block had fewer operations.

    Examples
    --------
    >>> from floatgate import Mtd
    >>> flash = Mtd("am62a-w35n01jw")
    >>> with PowerCut(flash, 2, 0.5) as cut:
    ...     flash.erase(0)
    ...     flash.erase(flash.geometry.erase_bytes)
    >>> cut.happened, flash.powered
    (True, True)
    """

    def __init__(self, flash: Mtd, operation: int, share: float) -> None:
        self._flash = flash
        self.operation, self.share, self.happened = operation, share, False

    def __repr__(self) -> str:
        return f"PowerCut(operation={self.operation}, share={self.share})"

    def __enter__(self) -> PowerCut:
        self._flash.cut(self.operation, self.share)
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        self._flash.cancel_cut()
        self.happened = not self._flash.powered
        if not self.happened:
            return False
        self._flash.restart()
        # The code under test may have made another exception of it.
        return kind is None or issubclass(kind, Exception)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("floatgate_setup", "Setup of the fixture floatgate_flash without a marker", default="am62a-w35n01jw")


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def _cuts(operations: Any = OPERATIONS, shares: Any = SHARES) -> list[tuple[int, float]]:
    return [(operation, share) for operation in operations for share in shares]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "floatgate_cut" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("floatgate_cuts")
    cuts = _cuts(*marker.args, **marker.kwargs) if marker is not None else _cuts()
    ids = [f"cut{operation}-{share:.0%}" for operation, share in cuts]
    metafunc.parametrize("floatgate_cut", cuts, ids=ids, indirect=True)


@pytest.fixture
def floatgate_flash(request: pytest.FixtureRequest) -> Mtd:
    """A simulated flash behind its driver, a new one for each test."""
    from ._device import Mtd

    marker = request.node.get_closest_marker("floatgate")
    if marker is None:
        return Mtd(request.config.getini("floatgate_setup"))
    return Mtd(*(marker.args or (request.config.getini("floatgate_setup"),)), **marker.kwargs)


@pytest.fixture
def floatgate_card(request: pytest.FixtureRequest) -> BlockDevice:
    """A simulated SD card or eMMC, a new one for each test."""
    from ._device import BlockDevice

    marker = request.node.get_closest_marker("floatgate_card")
    if marker is None:
        return BlockDevice("kingston-class-10")
    return BlockDevice(*(marker.args or ("kingston-class-10",)), **marker.kwargs)


@pytest.fixture
def floatgate_cut(request: pytest.FixtureRequest, floatgate_flash: Mtd) -> Iterator[PowerCut]:
    """The power cut of this test, for a ``with`` block in which it comes."""
    operation, share = request.param
    yield PowerCut(floatgate_flash, operation, share)
