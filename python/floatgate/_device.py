"""Simulated devices to read and write, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Optional, TypeVar

from . import _floatgate as native
from ._arguments import Overrides, Path, fspath, named, overrides
from ._error import Error
from ._studies import Span

Done = TypeVar("Done")

#: A function that is told what each resource does.
Observer = Callable[[Span], None]


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


class _Device:
    """A device is a state in the native module: a copy of the object alone would be a second name for it."""

    #: Advice where a copy is asked for.
    _instead = "`fork()` makes a copy that goes its own way"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled: {self._instead}")


class Mtd(_Device):
    """The flash of a setup under its driver, controller and ECC. Each call moves `now` on.

    Parameters
    ----------
    setup, set, corner, seed, bad_blocks
        As for `speed`.

    Examples
    --------
    >>> flash = Mtd("am62a-w35n01jw")
    >>> flash.write(0, b"x" * flash.geometry.write_bytes)
    >>> flash.read(0, 4)
    b'xxxx'
    """

    _observer: Optional[Observer] = None

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
        self._name = fspath("setup", setup)
        self.geometry = Geometry(**self._native.geometry())

    @property
    def now(self) -> int:
        """Virtual time since power-on in ns."""
        return self._native.now_ns()

    @property
    def breakdown_ns(self) -> dict[str, int]:
        """The account: nanoseconds since power-on by phase, such as ``array``, ``transfer``, ``cpu``."""
        return self._native.breakdown_ns()

    def read(self, addr: int, length: int) -> bytes:
        """Read `length` bytes at byte `addr`, corrected by the ECC."""
        if self._observer is None:
            return self._native.read(addr, length)
        return self._observed(self._native.read, addr, length)

    def readinto(self, addr: int, buffer: Any) -> None:
        """Fill a writable buffer (bytearray, memoryview, numpy) from byte `addr` on, without a copy.

        After an `Error` it has what was read until then.
        """
        self._observed(self._native.readinto, addr, buffer)

    def write(self, addr: int, data: Any) -> None:
        """Program a buffer (bytes, bytearray, memoryview, numpy) at byte `addr`, without a copy.

        Both are multiples of `geometry.write_bytes`, and erased before.
        """
        self._observed(self._native.write, addr, data)

    def erase(self, addr: int, length: Optional[int] = None) -> None:
        """Erase `length` bytes at byte `addr`, whole eraseblocks; one by default."""
        self._observed(self._native.erase, addr, self.geometry.erase_bytes if length is None else length)

    def observe(self, observer: Optional[Observer]) -> None:
        """Call `observer` after each operation with the `Span` of every activity of a resource; ``None`` ends that.

        Times are virtual, in ns since power-on. An exception of the observer goes to the caller of the operation, which was done.

        Examples
        --------
        >>> flash = Mtd("am62a-w35n01jw")
        >>> seen = []
        >>> flash.observe(seen.append)
        >>> flash.erase(0)
        >>> "tBERS" in [span.what for span in seen]
        True
        """
        if observer is not None and not callable(observer):
            raise TypeError(f"observer: expected a function of a Span, or None, got {observer!r}")
        self._observer = observer
        self._native.record(observer is not None)

    def _observed(self, operation: Callable[..., Done], *arguments: Any) -> Done:
        """Runs an operation, and tells the observer of it, whether it failed or not."""
        if self._observer is None:
            return operation(*arguments)
        try:
            return operation(*arguments)
        finally:
            for span in self._native.take_spans():
                # It may have ended that, or named another one.
                if self._observer is not None:
                    self._observer(Span(*span))

    def fork(self) -> Mtd:
        """A copy of flash, driver and clock that goes its own way. Blocks that neither changes are shared.

        The copy has no observer.
        """
        copy = object.__new__(type(self))
        copy._native = self._native.fork()
        copy._native.record(False)
        copy._name, copy.geometry = self._name, self.geometry
        return copy

    def __repr__(self) -> str:
        return f"<Mtd of {self._name!r}, {self.geometry.size_bytes} bytes, now {self.now} ns>"

    def cut(self, operation: Optional[int] = None, share: float = 0.5, *, after_ns: int = 0) -> None:
        """Order a loss of power. What is going on then is left as far as it had come; all later calls fail until `restart`.

        Parameters
        ----------
        operation : int, optional
            Number of the program or erase in which power goes, 1 for the next one; by default it goes after `after_ns`.
        share : float
            Share of that operation that is over, 0 to 1.
        after_ns : int
            Virtual nanoseconds from now on.

        Raises
        ------
        ValueError
            An operation below 1, a share that is not from 0 to 1, or a time before now.
        """
        self._native.order_cut(operation, share, after_ns)

    @property
    def powered(self) -> bool:
        """False from a loss of power until `restart`."""
        return self._native.is_powered()

    def restart(self, off_ns: int = 100_000_000) -> None:
        """Power comes back after `off_ns` nanoseconds, and the driver sets the chip up again."""
        self._observed(self._native.restart, off_ns)

    def read_oob(self, addr: int, mode: str = "auto") -> tuple[bytes, bytes]:
        """Data and OOB of the page at byte `addr`.

        Parameters
        ----------
        mode : {"auto", "place", "raw"}
            The free OOB bytes alone; all as on the chip; all as on the chip, without ECC.
        """
        return self._observed(self._native.read_oob, addr, mode)

    def write_oob(self, addr: int, data: Any, oob: Any, mode: str = "auto") -> None:
        """Program a page with its OOB; `mode` as for `read_oob`."""
        self._observed(self._native.write_oob, addr, data, oob, mode)

    def is_bad(self, addr: int) -> bool:
        """True when the eraseblock at byte `addr` is marked bad."""
        return self._native.is_bad(addr)


class SpiBus(_Device):
    """The SPI chip of a setup behind its controller, without a driver: write one.

    The chip speaks its command set alone and is stricter than silicon: an operation that breaks a rule is an `Error`, and so is one
    that the controller cannot do.

    Parameters
    ----------
    setup, set, corner, seed, bad_blocks
        As for `speed`; the setup's chip is a SPI NAND or a SPI NOR.

    Examples
    --------
    >>> bus = SpiBus("stm32-n25q128a")
    >>> bus.xfer(0x9F, read=3).hex()  # READ ID
    '20ba18'
    """

    _instead = "make another one of the setup"

    def __init__(
        self,
        setup: Path,
        set: Optional[Overrides] = None,
        *,
        corner: str = "typ",
        seed: int = 0,
        bad_blocks: int = 0,
    ) -> None:
        self._native = native.NativeSpiBus(named(setup, set, corner=corner, seed=seed, bad_blocks=bad_blocks))
        self._name = fspath("setup", setup)

    def __repr__(self) -> str:
        return f"<SpiBus of {self._name!r}, now {self.now} ns>"

    @property
    def now(self) -> int:
        """Virtual time since power-on in ns."""
        return self._native.now_ns()

    def wait(self, ns: int) -> None:
        """Let `ns` nanoseconds pass."""
        self._native.wait(ns)

    def xfer(
        self,
        opcode: int,
        address: Optional[int] = None,
        *,
        address_bytes: int = 3,
        dummy_cycles: int = 0,
        data: Any = b"",
        read: int = 0,
        mode: str = "1S-1S-1S",
    ) -> bytes:
        """Run one operation: CS# low, command, address, dummy cycles, data, CS# high.

        Parameters
        ----------
        opcode : int
            Command byte.
        address : int, optional
            Address; none is sent without it.
        address_bytes : int
            Bytes of the address, 1 to 4.
        dummy_cycles : int
            Clock cycles between address and data.
        data : buffer
            Bytes to send.
        read : int
            Number of bytes to read; an operation sends or reads.
        mode : str
            Lanes and rates of command, address and data.

        Returns
        -------
        bytes
            What the chip has sent.
        """
        command = {
            "opcode": opcode,
            "address": address or 0,
            "address_bytes": 0 if address is None else address_bytes,
            "dummy_cycles": dummy_cycles,
            "mode": mode,
        }
        if read and memoryview(data).nbytes:
            raise Error("an operation sends or reads, not both", "split it into two operations")
        if read:
            return self._native.receive(command, read)
        self._native.send(command, data)
        return b""


class BlockDevice(_Device):
    """An SD card or eMMC in virtual time, as its host sees it: a fake has the size that it claims. Each request moves `now` on.

    What is written is kept in memory, and has no other bound than the size of the card.

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
        self._name = fspath("card", card)
        self._native = native.NativeCard(self._name, overrides(set), seed)
        self.size_bytes = self._native.size_bytes()

    @property
    def now(self) -> int:
        """Virtual time since power-on in ns."""
        return self._native.now_ns()

    @property
    def breakdown_ns(self) -> dict[str, int]:
        """The account: nanoseconds since power-on by phase."""
        return self._native.breakdown_ns()

    def fork(self) -> BlockDevice:
        """A copy of the card and its clock that goes its own way."""
        copy = object.__new__(type(self))
        copy._native, copy._name, copy.size_bytes = self._native.fork(), self._name, self.size_bytes
        return copy

    def __repr__(self) -> str:
        return f"<BlockDevice of {self._name!r}, {self.size_bytes} bytes, now {self.now} ns>"

    def read(self, lba: int, length: int) -> bytes:
        """Read `length` bytes, whole sectors, from sector `lba` on."""
        return self._native.read(lba, length)

    def readinto(self, lba: int, buffer: Any) -> None:
        """Fill a writable buffer, whole sectors, from sector `lba` on, without a copy.

        After an `Error` it has what was read until then.
        """
        self._native.readinto(lba, buffer)

    def write(self, lba: int, data: Any) -> None:
        """Write a buffer, whole sectors, from sector `lba` on."""
        self._native.write(lba, data)

    def discard(self, lba: int, count: int) -> None:
        """Say that the contents of `count` sectors from `lba` on are not needed any more."""
        self._native.discard(lba, count)

    def flush(self) -> None:
        """Wait until everything written is on the flash."""
        self._native.flush()
