"""Simulated devices to read and write, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Optional, TypeVar

from . import _floatgate as native
from ._arguments import Overrides, Path, fspath, named, overrides
from ._error import ArgumentError
from ._studies import Span
from ._types import Corner, OobMode, OtpArea

Done = TypeVar("Done")
Device = TypeVar("Device", bound="_Device")

#: Function that receives the activity spans of all resources.
Observer = Callable[[Span], None]


@dataclass(frozen=True)
class Geometry:
    """Sizes of a flash.

    Attributes
    ----------
    size_bytes, erase_bytes, write_bytes : int
        Bytes of the device, of an eraseblock, and of the smallest write: a page on NAND.
    oob_bytes, oob_free_bytes : int
        OOB bytes of a page, and number of them that are free for the user; 0 on NOR.
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


@dataclass(frozen=True)
class OtpRegion:
    """A part of an OTP area that is locked as a whole.

    Attributes
    ----------
    start, length : int
        First byte in the area, and number of bytes.
    locked : bool
        True if the part can no longer be written.
    """

    start: int
    length: int
    locked: bool


@dataclass(frozen=True)
class Violation:
    """A rule of the chip that the host has broken.

    Attributes
    ----------
    at_ns : int
        Virtual time in ns since power-on.
    sent : bytes
        The first bytes that were sent: command and address.
    rule : str
        The rule in words.
    """

    at_ns: int
    sent: bytes
    rule: str


class _Device:
    """Base of all devices. The state is in the native module, so a copy of this object would refer to the same device."""

    _native: Any
    _name: str
    _observer: Optional[Observer] = None

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled: `fork()` makes a copy that goes its own way")

    @property
    def now(self) -> int:
        """Virtual time since power-on in ns."""
        now: int = self._native.now_ns()
        return now

    @property
    def breakdown_ns(self) -> dict[str, int]:
        """Nanoseconds since power-on by phase, such as ``array``, ``data``, ``cpu``."""
        breakdown: dict[str, int] = self._native.breakdown_ns()
        return breakdown

    def wait(self, ns: int) -> None:
        """Advance the virtual clock.

        Parameters
        ----------
        ns : int
            Nanoseconds.

        Raises
        ------
        ArgumentError
            The clock would pass 100 years.

        Examples
        --------
        >>> flash = Mtd("am62a-w35n01jw")
        >>> before = flash.now
        >>> flash.wait(1_000_000)
        >>> flash.now - before
        1000000
        """
        self._native.wait(ns)

    def observe(self, observer: Optional[Observer]) -> None:
        """Call `observer` after each operation with the `Span` of every activity of a resource; ``None`` ends that.

        Times are virtual, in ns since power-on. An exception of the observer is raised to the caller after the operation was executed.

        Parameters
        ----------
        observer : function of a Span, or None
            The function to call.

        Raises
        ------
        TypeError
            `observer` cannot be called.

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
        """Run an operation, and then call the observer, even if the operation failed."""
        if self._observer is None:
            return operation(*arguments)
        try:
            return operation(*arguments)
        finally:
            for span in self._native.take_spans():
                # The observer may have removed or replaced itself.
                if self._observer is not None:
                    self._observer(Span(*span))

    def fork(self: Device) -> Device:
        r"""Return an independent copy of the device and its clock, which shares unchanged blocks.

        The copy has no observer.

        Returns
        -------
        the class of the device
            Independent copy with its own clock.

        Examples
        --------
        >>> flash = Mtd("am62a-w35n01jw")
        >>> copy = flash.fork()
        >>> copy.write(0, b"x" * copy.geometry.write_bytes)
        >>> flash.read(0, 1), copy.read(0, 1)
        (b'\xff', b'x')
        """
        copy = object.__new__(type(self))
        copy.__dict__.update({key: value for key, value in self.__dict__.items() if key not in ("_native", "_observer")})
        copy._native = self._native.fork()
        copy._native.record(False)
        return copy

    def cancel_cut(self) -> None:
        """Cancel a requested power cut that has not happened yet.

        Examples
        --------
        >>> flash = Mtd("am62a-w35n01jw")
        >>> flash.cut(operation=1)
        >>> flash.cancel_cut()
        >>> flash.erase(0)
        """
        self._native.cancel_cut()

    @property
    def powered(self) -> bool:
        """False after a power loss until `restart`."""
        powered: bool = self._native.is_powered()
        return powered

    def restart(self, off_ns: int = 100_000_000) -> None:
        """Switch power off, if it is on, and on again, and initialise the device.

        Parameters
        ----------
        off_ns : int
            Virtual nanoseconds without power.

        Raises
        ------
        PowerLost
            A power cut happened while the device was initialised.

        Examples
        --------
        >>> flash = Mtd("am62a-w35n01jw")
        >>> flash.cut(operation=1)
        >>> try:
        ...     flash.erase(0)
        ... except PowerLost:
        ...     flash.restart()
        >>> flash.powered
        True
        """
        self._observed(self._native.restart, off_ns)


class _Cuttable(_Device):
    """A chip whose programs and erases a power cut can interrupt at any point."""

    def cut(self, operation: Optional[int] = None, share: float = 0.5, *, after_ns: int = 0) -> None:
        """Request a power cut. A running operation is interrupted, and all later calls fail until `restart`.

        Parameters
        ----------
        operation : int, optional
            Number of the program or erase to interrupt, 1 for the next one; by default power is cut after `after_ns`.
        share : float
            Completed share of that operation at the cut, 0 to 1.
        after_ns : int
            Virtual nanoseconds from now on.

        Raises
        ------
        ValueError
            An operation below 1, a share that is not from 0 to 1, or a time before now.

        Examples
        --------
        >>> flash = Mtd("am62a-w35n01jw")
        >>> flash.cut(operation=2, share=0.3)
        >>> flash.erase(0)
        >>> flash.erase(0)
        Traceback (most recent call last):
        floatgate._error.PowerLost: power lost at 0x0
        help: `restart()` switches power on again
        """
        self._native.order_cut(operation, share, after_ns)


class Mtd(_Cuttable):
    """The flash of a setup with its driver, controller and ECC. Each call advances `now`.

    Parameters
    ----------
    setup, set, corner, seed, bad_blocks
        As for `speed`.

    Raises
    ------
    ArgumentError
        The setup or a value is wrong.

    Examples
    --------
    >>> flash = Mtd("am62a-w35n01jw")
    >>> flash.write(0, b"x" * flash.geometry.write_bytes)
    >>> flash.read(0, 4)
    b'xxxx'
    """

    _native: native.NativeMtd

    def __init__(
        self,
        setup: Path,
        set: Optional[Overrides] = None,
        *,
        corner: Corner = "typ",
        seed: int = 0,
        bad_blocks: int = 0,
    ) -> None:
        self._native = native.NativeMtd(named(setup, set, corner=corner, seed=seed, bad_blocks=bad_blocks))
        self._name = fspath("setup", setup)
        self.geometry = Geometry(**self._native.geometry())

    def __repr__(self) -> str:
        return f"<Mtd of {self._name!r}, {self.geometry.size_bytes} bytes, now {self.now} ns>"

    def read(self, addr: int, length: int) -> bytes:
        r"""Read bytes, corrected by the ECC.

        Parameters
        ----------
        addr, length : int
            First byte, and number of bytes.

        Returns
        -------
        bytes
            Bytes that were read.

        Raises
        ------
        FlashError
            More bits are wrong than the ECC corrects.
        ArgumentError
            The range is outside the flash.

        Examples
        --------
        >>> Mtd("am62a-w35n01jw").read(0, 2)
        b'\xff\xff'
        """
        if self._observer is None:
            return self._native.read(addr, length)
        return self._observed(self._native.read, addr, length)

    def readinto(self, addr: int, buffer: Any) -> None:
        r"""Read bytes from `addr` on into a writable buffer (bytearray, memoryview, numpy), without a copy.

        Parameters
        ----------
        addr : int
            First byte.
        buffer : buffer
            Destination buffer. After an `Error` it contains the data read before.

        Raises
        ------
        FlashError
            More bits are wrong than the ECC corrects.
        BufferError
            The buffer is read-only.

        Examples
        --------
        >>> buffer = bytearray(2)
        >>> Mtd("am62a-w35n01jw").readinto(0, buffer)
        >>> buffer
        bytearray(b'\xff\xff')
        """
        self._observed(self._native.readinto, addr, buffer)

    def write(self, addr: int, data: Any) -> None:
        """Program a buffer (bytes, bytearray, memoryview, numpy) at byte `addr`, without a copy.

        Parameters
        ----------
        addr : int
            First byte, a multiple of `geometry.write_bytes`.
        data : buffer
            Data to program, in whole pages. The range must be erased.

        Raises
        ------
        FlashError
            The range is not erased, or the program failed.

        Examples
        --------
        >>> flash = Mtd("am62a-w35n01jw")
        >>> flash.write(0, bytes(flash.geometry.write_bytes))
        """
        self._observed(self._native.write, addr, data)

    def erase(self, addr: int, length: Optional[int] = None) -> None:
        """Erase whole eraseblocks.

        Parameters
        ----------
        addr : int
            First byte of an eraseblock.
        length : int, optional
            Number of bytes; one eraseblock by default.

        Raises
        ------
        FlashError
            The erase failed, or the block is bad.

        Examples
        --------
        >>> Mtd("am62a-w35n01jw").erase(0)
        """
        self._observed(self._native.erase, addr, self.geometry.erase_bytes if length is None else length)

    def read_oob(self, addr: int, mode: OobMode = "auto") -> tuple[bytes, bytes]:
        """Read a page with its OOB.

        Parameters
        ----------
        addr : int
            First byte of the page.
        mode : {"auto", "place", "raw"}
            Only the free OOB bytes; all OOB bytes as on the chip; data and OOB as on the chip, without ECC.

        Returns
        -------
        tuple of bytes
            Data and OOB.

        Raises
        ------
        FlashError
            The flash has no OOB, or more bits are wrong than the ECC corrects.

        Examples
        --------
        >>> data, oob = Mtd("imx6-mx30lf2g18ac").read_oob(0, "raw")
        >>> len(data), len(oob)
        (2048, 64)
        """
        return self._observed(self._native.read_oob, addr, mode)

    def write_oob(self, addr: int, data: Any, oob: Any, mode: OobMode = "auto") -> None:
        """Program a page with its OOB.

        Parameters
        ----------
        addr : int
            First byte of the page.
        data, oob : buffer
            Data, which may be empty, and OOB.
        mode : {"auto", "place", "raw"}
            As for `read_oob`.

        Raises
        ------
        FlashError
            The page is not erased, or the program failed.

        Examples
        --------
        >>> flash = Mtd("imx6-mx30lf2g18ac")
        >>> flash.write_oob(0, bytes(2048), bytes(64), "raw")
        """
        self._observed(self._native.write_oob, addr, data, oob, mode)

    def is_bad(self, addr: int) -> bool:
        """Return True if an eraseblock is marked bad.

        Parameters
        ----------
        addr : int
            First byte of the eraseblock.

        Returns
        -------
        bool
            True when it is bad.

        Raises
        ------
        ArgumentError
            The address is not the start of an eraseblock.

        Examples
        --------
        >>> Mtd("am62a-w35n01jw").is_bad(0)
        False
        """
        return self._observed(self._native.is_bad, addr)

    def mark_bad(self, addr: int) -> None:
        """Mark an eraseblock bad on the flash, as a driver does.

        Parameters
        ----------
        addr : int
            First byte of the eraseblock.

        Raises
        ------
        FlashError
            The flash has no bad block markers, such as NOR.

        Examples
        --------
        >>> flash = Mtd("am62a-w35n01jw")
        >>> flash.mark_bad(0)
        >>> flash.is_bad(0)
        True
        """
        self._observed(self._native.mark_bad, addr)

    @property
    def operations(self) -> int:
        """Number of programs and erases of the chip since the first use of this property."""
        self._native.count_operations()
        return self._native.operations()

    def fail(self, addr: int, *, program: bool = True, erase: bool = True, after_ns: int = 0) -> None:
        """Make programs and erases of the eraseblock at an address fail, now or from a given time on.

        A driver detects this from the status of the chip: the block has become bad. On SPI NOR, programs of one page fail.

        Parameters
        ----------
        addr : int
            A byte of the eraseblock.
        program, erase : bool
            Operations that fail. With neither, the block works again.
        after_ns : int
            Virtual nanoseconds until that time. Operations that begin later fail.

        Raises
        ------
        ArgumentError
            The address is beyond the flash, or the setup uses slc-mode.

        Examples
        --------
        >>> flash = Mtd("am62a-w35n01jw")
        >>> flash.fail(0, program=False)
        >>> flash.erase(0)
        Traceback (most recent call last):
        floatgate._error.FlashError: the chip reports that erasing failed at 0x0
        """
        self._native.set_faults(addr, program, erase, after_ns)

    def flip(self, addr: int, bit: int = 0, *, oob_byte: Optional[int] = None) -> None:
        r"""Invert a bit on the chip until its eraseblock is erased.

        Parameters
        ----------
        addr : int
            Address of the byte.
        bit : int
            Bit of the byte, 0 to 7.
        oob_byte : int, optional
            Use this byte of the OOB of the page at `addr` instead.

        Raises
        ------
        ValueError
            The bit does not exist.

        Examples
        --------
        >>> flash = Mtd("imx6-mx30lf2g18ac")
        >>> flash.write(0, bytes(2048))
        >>> flash.flip(0, 3)
        >>> flash.read(0, 1)  # corrected
        b'\x00'
        >>> flash.read_oob(0, "raw")[0][:1]
        b'\x08'
        """
        self._native.flip(addr, bit, oob_byte)

    def cycles(self, addr: int) -> int:
        """Return the erase cycles of an eraseblock of NAND.

        Parameters
        ----------
        addr : int
            A byte of the eraseblock.

        Returns
        -------
        int
            Number of cycles since the chip was new.

        Raises
        ------
        ArgumentError
            The flash is NOR, or the address is outside the flash.

        Examples
        --------
        >>> flash = Mtd("am62a-w35n01jw")
        >>> before = flash.cycles(0)
        >>> flash.erase(0)
        >>> flash.cycles(0) - before
        1
        """
        return self._native.cycles(addr)

    def wear(self, addr: int, cycles: int) -> None:
        """Add erase cycles with all pages programmed to an eraseblock of NAND. Its contents do not change.

        Parameters
        ----------
        addr : int
            A byte of the eraseblock.
        cycles : int
            Number of cycles to add.

        Raises
        ------
        ArgumentError
            The flash is NOR, or the address is outside the flash.

        Examples
        --------
        >>> flash = Mtd("am62a-w35n01jw", {"cells.cycles": 0})
        >>> flash.wear(0, 50_000)
        >>> flash.cycles(0)
        50000
        """
        self._native.wear(addr, cycles)

    def bake(self, days: float, temperature_c: float = 40.0) -> None:
        """Simulate the charge loss of all programmed pages of NAND over time at a temperature. The clock does not change.

        Parameters
        ----------
        days : float
            Time in days.
        temperature_c : float
            Temperature in degrees Celsius.

        Raises
        ------
        ArgumentError
            The flash is a NOR.

        Examples
        --------
        >>> Mtd("am62a-w35n01jw").bake(365, 55)
        """
        self._native.bake(days, temperature_c)

    def otp_regions(self, area: OtpArea = "user") -> list[OtpRegion]:
        """Regions of a one-time-programmable area.

        Parameters
        ----------
        area : {"user", "factory"}
            The user's area, or the maker's, which is read-only.

        Returns
        -------
        list of OtpRegion
            The regions; empty if the chip has no such area.

        Raises
        ------
        ArgumentError
            No area has that name.

        Examples
        --------
        >>> Mtd("stm32-n25q128a").otp_regions("user")[0].locked
        False
        """
        return [OtpRegion(*region) for region in self._observed(self._native.otp_regions, area)]

    def otp_read(self, addr: int, length: int, area: OtpArea = "user") -> bytes:
        r"""Read a one-time-programmable area.

        Parameters
        ----------
        addr, length : int
            First byte in the area, and number of bytes.
        area : {"user", "factory"}
            As for `otp_regions`.

        Returns
        -------
        bytes
            Bytes that were read.

        Raises
        ------
        FlashError
            The chip has no such area.
        ArgumentError
            The range is outside the area.

        Examples
        --------
        >>> Mtd("stm32-n25q128a").otp_read(0, 2)
        b'\xff\xff'
        """
        return self._observed(self._native.otp_read, addr, length, area)

    def otp_write(self, addr: int, data: Any) -> None:
        """Write to the user's one-time-programmable area.

        Parameters
        ----------
        addr : int
            First byte in the area.
        data : buffer
            Bytes to write.

        Raises
        ------
        FlashError
            The region is locked, was written before, or does not exist.

        Examples
        --------
        >>> flash = Mtd("stm32-n25q128a")
        >>> flash.otp_write(0, b"serial")
        >>> flash.otp_read(0, 6)
        b'serial'
        """
        self._observed(self._native.otp_write, addr, data)

    def otp_erase(self, addr: int, length: int) -> None:
        """Erase regions of the user's one-time-programmable area, if the chip supports it.

        Parameters
        ----------
        addr, length : int
            First byte in the area, and number of bytes.

        Raises
        ------
        FlashError
            The chip does not support it, or a region is locked.

        Examples
        --------
        >>> Mtd("stm32-n25q128a").otp_erase(0, 64)
        Traceback (most recent call last):
        floatgate._error.FlashError: not supported: this OTP area cannot be erased
        """
        self._observed(self._native.otp_erase, addr, length)

    def otp_lock(self, addr: int, length: int) -> None:
        """Lock regions of the user's one-time-programmable area permanently.

        Parameters
        ----------
        addr, length : int
            First byte in the area, and number of bytes; both on the boundaries of regions.

        Raises
        ------
        FlashError
            The chip has no such area.

        Examples
        --------
        >>> flash = Mtd("stm32-n25q128a")
        >>> region = flash.otp_regions()[0]
        >>> flash.otp_lock(region.start, region.length)
        >>> flash.otp_regions()[0].locked
        True
        """
        self._observed(self._native.otp_lock, addr, length)


class _Bus(_Cuttable):
    """A chip without a driver."""

    @property
    def violations(self) -> list[Violation]:
        """Rules of the chip that were broken so far, the first 4096 of them."""
        return [Violation(at, bytes(sent), rule) for at, sent, rule in self._native.violations()[0]]

    @property
    def violation_count(self) -> int:
        """Number of all broken rules."""
        count: int = self._native.violations()[1]
        return count


class SpiBus(_Bus):
    """The SPI chip of a setup with its controller, but without a driver, so that you can write one.

    The chip has only its command set and is stricter than silicon. An operation that breaks a rule raises an `Error` and is one of
    `violations`. An operation that the controller does not support raises an `Error`.

    Parameters
    ----------
    setup, set, corner, seed, bad_blocks
        As for `speed`; the setup's chip is a SPI NAND or a SPI NOR.

    Raises
    ------
    ArgumentError
        The setup or a value is wrong, or the chip is on a parallel bus.

    Examples
    --------
    >>> bus = SpiBus("stm32-n25q128a")
    >>> bus.xfer(0x9F, read=3).hex()  # READ ID
    '20ba18'
    """

    _native: native.NativeSpiBus

    def __init__(
        self,
        setup: Path,
        set: Optional[Overrides] = None,
        *,
        corner: Corner = "typ",
        seed: int = 0,
        bad_blocks: int = 0,
    ) -> None:
        self._native = native.NativeSpiBus(named(setup, set, corner=corner, seed=seed, bad_blocks=bad_blocks))
        self._name = fspath("setup", setup)

    def __repr__(self) -> str:
        return f"<SpiBus of {self._name!r}, now {self.now} ns>"

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
        r"""Run one operation: CS# low, command, address, dummy cycles, data, CS# high.

        Parameters
        ----------
        opcode : int
            Command byte.
        address : int, optional
            Address; by default no address is sent.
        address_bytes : int
            Bytes of the address, 1 to 4.
        dummy_cycles : int
            Clock cycles between address and data.
        data : buffer
            Bytes to send.
        read : int
            Number of bytes to read. An operation either sends or reads.
        mode : str
            Lanes and data rates of command, address and data.

        Returns
        -------
        bytes
            Bytes that the chip has sent.

        Raises
        ------
        FlashError
            The chip refuses the operation, or power is off.
        ArgumentError
            The controller does not support the operation, or an argument is wrong.

        Examples
        --------
        >>> bus = SpiBus("stm32-n25q128a")
        >>> bus.xfer(0x06)  # WRITE ENABLE
        b''
        >>> bus.xfer(0x05, read=1)  # READ STATUS: write enabled
        b'\x02'
        """
        command = {
            "opcode": opcode,
            "address": address or 0,
            "address_bytes": 0 if address is None else address_bytes,
            "dummy_cycles": dummy_cycles,
            "mode": mode,
        }
        if read and memoryview(data).nbytes:
            raise ArgumentError("an operation sends or reads, not both", "split it into two operations")
        if read:
            return self._observed(self._native.receive, command, read)
        self._observed(self._native.send, command, data)
        return b""


class NandBus(_Bus):
    r"""The raw NAND of a setup at its pins: command, address and data cycles, and R/B#. Controller and driver are yours.

    Cycles take the time that the interface defines, including the pauses that every controller keeps between them. A cycle that breaks
    a rule of the chip is one of `violations`; the chip ignores it, and reads return FFh.

    Parameters
    ----------
    setup, set, corner, seed, bad_blocks
        As for `speed`; the setup's chip is a raw NAND.

    Raises
    ------
    ArgumentError
        The setup or a value is wrong, or the chip is no raw NAND.

    Examples
    --------
    >>> bus = NandBus("imx6-mx30lf2g18ac")
    >>> bus.command(0xFF)  # RESET
    >>> bus.wait_ready()
    >>> bus.command(0x90)  # READ ID
    >>> bus.address(b"\x00")
    >>> bus.read_register(2).hex()
    'c2da'
    """

    _native: native.NativeNandBus

    def __init__(
        self,
        setup: Path,
        set: Optional[Overrides] = None,
        *,
        corner: Corner = "typ",
        seed: int = 0,
        bad_blocks: int = 0,
    ) -> None:
        self._native = native.NativeNandBus(named(setup, set, corner=corner, seed=seed, bad_blocks=bad_blocks))
        self._name = fspath("setup", setup)

    def __repr__(self) -> str:
        return f"<NandBus of {self._name!r}, now {self.now} ns>"

    def select(self, target: int) -> None:
        """Select the CE# signal of a target for the following cycles. If it is not connected, no chip answers.

        Parameters
        ----------
        target : int
            Number of the CE# signal; initially 0.

        Raises
        ------
        ArgumentError
            The number is negative or above 255.

        Examples
        --------
        >>> NandBus("imx6-mx30lf2g18ac").select(0)
        """
        self._native.select(target)

    def set_interface(self, interface: str) -> None:
        """Switch the host to another interface. The chip must be switched with a SET FEATURES command, too.

        Parameters
        ----------
        interface : str
            ``"sdr0"`` to ``"sdr5"``, or ``"nvddr0"`` to ``"nvddr5"``.

        Raises
        ------
        ArgumentError
            No interface has that name.

        Examples
        --------
        >>> NandBus("imx6-mx30lf2g18ac").set_interface("sdr4")
        """
        self._native.set_interface(interface)

    def command(self, opcode: int) -> None:
        """Send a command cycle.

        Parameters
        ----------
        opcode : int
            Command byte.

        Raises
        ------
        PowerLost
            Power is off.

        Examples
        --------
        >>> NandBus("imx6-mx30lf2g18ac").command(0xFF)
        """
        self._observed(self._native.command, opcode)

    def address(self, cycles: Any) -> None:
        """Send address cycles, one for each byte.

        Parameters
        ----------
        cycles : buffer
            Bytes of column and row, least significant first.

        Raises
        ------
        PowerLost
            Power is off.

        Examples
        --------
        >>> bus = NandBus("imx6-mx30lf2g18ac")
        >>> bus.command(0x00)
        >>> bus.address(bytes(5))
        """
        self._observed(self._native.address, cycles)

    def write(self, data: Any) -> None:
        """Send data cycles: bytes of a page.

        Parameters
        ----------
        data : buffer
            Bytes of the page, in order.

        Raises
        ------
        PowerLost
            Power is off.

        Examples
        --------
        >>> bus = NandBus("imx6-mx30lf2g18ac")
        >>> bus.command(0x80)
        >>> bus.address(bytes(5))
        >>> bus.write(b"data")
        """
        self._observed(self._native.write, data, False)

    def write_register(self, data: Any) -> None:
        r"""Send data cycles: parameters of a feature, which NV-DDR sends twice.

        Parameters
        ----------
        data : buffer
            Parameters, one byte each.

        Raises
        ------
        PowerLost
            Power is off.

        Examples
        --------
        >>> bus = NandBus("imx6-mx30lf2g18ac")
        >>> bus.command(0xEF)
        >>> bus.address(b"\x01")
        >>> bus.write_register(bytes(4))
        """
        self._observed(self._native.write, data, True)

    def read(self, length: int) -> bytes:
        r"""Receive data cycles: bytes of a page.

        Parameters
        ----------
        length : int
            Number of bytes.

        Returns
        -------
        bytes
            Bytes that the chip sent.

        Raises
        ------
        PowerLost
            Power is off.

        Examples
        --------
        >>> bus = NandBus("imx6-mx30lf2g18ac")
        >>> bus.command(0xFF)  # RESET
        >>> bus.wait_ready()
        >>> bus.command(0x00)
        >>> bus.address(bytes(5))
        >>> bus.command(0x30)  # PAGE READ
        >>> bus.wait_ready()
        >>> bus.read(2)
        b'\xff\xff'
        """
        return self._observed(self._native.read, length, False)

    def read_register(self, length: int) -> bytes:
        r"""Receive data cycles: status, id or parameters of a feature, which NV-DDR sends twice.

        Parameters
        ----------
        length : int
            Number of bytes.

        Returns
        -------
        bytes
            Bytes that the chip sent.

        Raises
        ------
        PowerLost
            Power is off.

        Examples
        --------
        >>> bus = NandBus("imx6-mx30lf2g18ac")
        >>> bus.command(0xFF)  # RESET, which a chip needs first
        >>> bus.wait_ready()
        >>> bus.command(0x70)  # READ STATUS: ready, not protected
        >>> bus.read_register(1)
        b'\xe0'
        """
        return self._observed(self._native.read, length, True)

    @property
    def ready(self) -> bool:
        """State of R/B#: True if the chip is ready."""
        return self._native.is_ready()

    def wait_ready(self) -> None:
        """Wait until R/B# is high.

        Raises
        ------
        PowerLost
            Power was lost during the wait.

        Examples
        --------
        >>> bus = NandBus("imx6-mx30lf2g18ac")
        >>> bus.command(0xFF)
        >>> bus.wait_ready()
        >>> bus.ready
        True
        """
        self._observed(self._native.wait_ready)


class BlockDevice(_Device):
    """An SD card or eMMC in virtual time, as its host sees it: a fake card has the size that it claims. Each request advances `now`.

    Written data is kept in memory, which is limited only by the size of the card.

    Parameters
    ----------
    card : str or path
        Name of a built-in card, or the path of a TOML file.
    set : mapping, optional
        Overrides: ``{"card.open_aus": 4}``.
    seed : int
        Seed of its bad blocks and errors.

    Raises
    ------
    ArgumentError
        The card or a value is wrong.

    Examples
    --------
    >>> card = BlockDevice("kingston-class-10")
    >>> card.write(0, b"x" * 512)
    >>> card.read(0, 512)[:2]
    b'xx'
    """

    _native: native.NativeCard

    #: Size of a sector in bytes; addresses count sectors.
    sector_bytes = 512

    def __init__(self, card: Path, set: Optional[Overrides] = None, *, seed: int = 0) -> None:
        self._name = fspath("card", card)
        self._native = native.NativeCard(self._name, overrides(set), seed)
        self.size_bytes = self._native.size_bytes()

    def __repr__(self) -> str:
        return f"<BlockDevice of {self._name!r}, {self.size_bytes} bytes, now {self.now} ns>"

    def cut(self, operation: Optional[int] = None, *, after_ns: int = 0) -> None:
        """Request a power cut. The running flash operation of the card is interrupted, and all later requests fail until `restart`.

        Parameters
        ----------
        operation : int, optional
            Number of the program or erase of the card's flash to interrupt, 1 for the next one. By default the card is pulled
            out after `after_ns`.
        after_ns : int
            Virtual nanoseconds from now on.

        Raises
        ------
        ValueError
            An operation below 1, or a time before now.

        Examples
        --------
        >>> card = BlockDevice("kingston-class-10")
        >>> card.cut()
        >>> card.write(0, bytes(512))
        Traceback (most recent call last):
        floatgate._error.PowerLost: power lost at sector 0
        help: `restart()` switches power on again
        """
        self._native.order_cut(operation, after_ns)

    @property
    def write_amplification(self) -> float:
        """Ratio of units that the card has programmed to units that the host wrote; 0 before the first write."""
        host, written, _ = self._native.counts()
        return written / host if host else 0.0

    @property
    def erases(self) -> int:
        """Erases of the card's flash so far."""
        return self._native.counts()[2]

    def read(self, lba: int, length: int) -> bytes:
        r"""Read whole sectors.

        Parameters
        ----------
        lba : int
            First sector.
        length : int
            Number of bytes, a multiple of 512.

        Returns
        -------
        bytes
            Contents of the sectors.

        Raises
        ------
        FlashError
            More bits are wrong than the card corrects, or power is off.
        ArgumentError
            The range is outside the card.

        Examples
        --------
        >>> BlockDevice("kingston-class-10").read(0, 512)[:2]
        b'\x00\x00'
        """
        return self._observed(self._native.read, lba, length)

    def readinto(self, lba: int, buffer: Any) -> None:
        """Read whole sectors from `lba` on into a writable buffer, without a copy.

        Parameters
        ----------
        lba : int
            First sector.
        buffer : buffer
            Destination buffer. After an `Error` it contains the data read before.

        Raises
        ------
        FlashError
            As `read`.
        BufferError
            The buffer is read-only.

        Examples
        --------
        >>> BlockDevice("kingston-class-10").readinto(0, bytearray(512))
        """
        self._observed(self._native.readinto, lba, buffer)

    def write(self, lba: int, data: Any) -> None:
        """Write whole sectors. The data may stay in a buffer of the card until `flush`.

        Parameters
        ----------
        lba : int
            First sector.
        data : buffer
            Bytes of whole sectors.

        Raises
        ------
        FlashError
            The card is worn out, or power is off.

        Examples
        --------
        >>> BlockDevice("kingston-class-10").write(0, bytes(512))
        """
        self._observed(self._native.write, lba, data)

    def discard(self, lba: int, count: int) -> None:
        """Discard the contents of sectors.

        Parameters
        ----------
        lba, count : int
            First sector, and number of sectors.

        Raises
        ------
        FlashError
            Power is off.

        Examples
        --------
        >>> BlockDevice("kingston-class-10").discard(0, 8)
        """
        self._observed(self._native.discard, lba, count)

    def flush(self) -> None:
        """Wait until all written data is on the flash.

        Raises
        ------
        FlashError
            The card is worn out, or power is off.

        Examples
        --------
        >>> BlockDevice("kingston-class-10").flush()
        """
        self._observed(self._native.flush)
