"""Simulated devices to read and write, in virtual time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Optional

from . import _floatgate as native
from ._arguments import Overrides, Path, named, overrides


@dataclass(frozen=True)
class Geometry:
    """Sizes of a flash.

    Attributes
    ----------
    size_bytes, erase_bytes, write_bytes : int
        Bytes of the device, of an eraseblock, and of the smallest write: a page on NAND.
    oob_bytes, oob_free_bytes : int
        OOB bytes of a page, and those of them that are free for the user; 0 on NOR.
    ecc_strength, ecc_step_bytes : int
        Bits that the ECC corrects in a step, and bytes of a step; 0 without ECC.
    """

    size_bytes: int
    erase_bytes: int
    write_bytes: int
    oob_bytes: int
    oob_free_bytes: int
    ecc_strength: int
    ecc_step_bytes: int


def _plain(data: Any) -> bytes:
    """The bytes of any object with a buffer: bytes, bytearray, memoryview, array, numpy."""
    return data if type(data) is bytes else memoryview(data).tobytes()


def _fill(buffer: Any, data: bytes) -> None:
    memoryview(buffer).cast("B")[:] = data


class Mtd:
    """The flash of a setup under its driver, controller and ECC. Each call moves `now` on.

    Parameters
    ----------
    setup, set, corner, seed, bad_blocks
        As for `speed`.
    """

    def __init__(
        self,
        setup: Path,
        set: Optional[Overrides] = None,
        *,
        corner: str = "typ",
        seed: int = 0,
        bad_blocks: int = 0,
    ) -> None:
        self._native = native.NativeMtd(named(setup, set, corner=corner, seed=seed, bad_blocks=bad_blocks))
        self.geometry = Geometry(**self._native.geometry())

    @property
    def now(self) -> int:
        """Virtual time since power-on in ns."""
        return self._native.now_ns()

    @property
    def breakdown_ns(self) -> dict[str, int]:
        """Nanoseconds since power-on by phase."""
        return self._native.breakdown_ns()

    def read(self, addr: int, length: int) -> bytes:
        """Read `length` bytes at byte `addr`, corrected by the ECC."""
        return self._native.read(addr, length)

    def readinto(self, addr: int, buffer: Any) -> None:
        """Fill a writable buffer from byte `addr` on."""
        _fill(buffer, self._native.read(addr, memoryview(buffer).nbytes))

    def write(self, addr: int, data: Any) -> None:
        """Program a buffer at byte `addr`; both multiples of `geometry.write_bytes`, and erased before."""
        self._native.write(addr, _plain(data))

    def erase(self, addr: int, length: Optional[int] = None) -> None:
        """Erase `length` bytes at byte `addr`, whole eraseblocks; one by default."""
        self._native.erase(addr, self.geometry.erase_bytes if length is None else length)

    def read_oob(self, addr: int, mode: str = "auto") -> tuple[bytes, bytes]:
        """Data and OOB of the page at byte `addr`.

        Parameters
        ----------
        mode : {"auto", "place", "raw"}
            The free OOB bytes alone; all as on the chip; all as on the chip, without ECC.
        """
        return self._native.read_oob(addr, mode)

    def write_oob(self, addr: int, data: Any, oob: Any, mode: str = "auto") -> None:
        """Program a page with its OOB; `mode` as for `read_oob`."""
        self._native.write_oob(addr, _plain(data), _plain(oob), mode)

    def is_bad(self, addr: int) -> bool:
        """True when the eraseblock at byte `addr` is marked bad."""
        return self._native.is_bad(addr)


class BlockDevice:
    """An SD card or eMMC in virtual time. Each request moves `now` on.

    Parameters
    ----------
    card : str or path
        Name of a built-in card, or the path of a TOML file.
    set : mapping, optional
        Overrides: ``{"card.open_aus": 4}``.
    seed : int
        Seed of its bad blocks and errors.
    """

    #: Bytes of a sector, the unit of addresses.
    sector_bytes = 512

    def __init__(self, card: Path, set: Optional[Overrides] = None, *, seed: int = 0) -> None:
        self._native = native.NativeCard(os.fspath(card), overrides(set), seed)
        self.size_bytes = self._native.size_bytes()

    @property
    def now(self) -> int:
        """Virtual time since power-on in ns."""
        return self._native.now_ns()

    def read(self, lba: int, length: int) -> bytes:
        """Read `length` bytes, whole sectors, from sector `lba` on."""
        return self._native.read(lba, length)

    def readinto(self, lba: int, buffer: Any) -> None:
        """Fill a writable buffer from sector `lba` on."""
        _fill(buffer, self._native.read(lba, memoryview(buffer).nbytes))

    def write(self, lba: int, data: Any) -> None:
        """Write a buffer, whole sectors, from sector `lba` on."""
        self._native.write(lba, _plain(data))

    def discard(self, lba: int, count: int) -> None:
        """Say that the contents of `count` sectors from `lba` on are not needed any more."""
        self._native.discard(lba, count)

    def flush(self) -> None:
        """Wait until everything written is on the flash."""
        self._native.flush()
