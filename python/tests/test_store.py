"""Power cuts of stores that are written in Python: a log of a NOR, and a translation layer of a NAND."""

from __future__ import annotations

import errno
import struct
import zlib
from typing import Any, Optional

import floatgate
import pytest

NOR, NAND = "w25q128jv", "am62a-w35n01jw"


class Log:
    """Key-value log in two halves of some sectors: a record has name, value and CRC. The half that was begun last has all values."""

    HALF_SECTORS = 2
    HAS_CRC = True

    def __init__(self, flash: floatgate.Mtd) -> None:
        self.flash = flash
        self.sector = flash.geometry.erase_bytes
        self.half_bytes = self.HALF_SECTORS * self.sector
        self.values: dict[str, bytes] = {}
        self.half, self.at, self.generation = 0, 0, 0

    def format(self) -> None:
        self._begin(0, 1)

    def _begin(self, half: int, generation: int) -> None:
        """Writes all values to a half that is erased first, and its head last."""
        start = half * self.half_bytes
        self.flash.erase(start, self.half_bytes)
        self.half, self.at, self.generation = half, 16, generation
        for name, value in self.values.items():
            self._append(name, value)
        head = struct.pack("<II", generation, 0)
        self.flash.write(start, head + struct.pack("<I", zlib.crc32(head)))

    def _append(self, name: str, value: Optional[bytes]) -> None:
        body = struct.pack("<BH", len(name), 0xFFFE if value is None else len(value)) + name.encode() + (value or b"")
        record = body + struct.pack("<I", zlib.crc32(body))
        if self.at + len(record) > self.half_bytes:
            raise OSError(errno.ENOSPC, "full")
        place = self.half * self.half_bytes + self.at
        self.at += len(record)
        self.flash.write(place, record)

    def mount(self) -> None:
        heads = []
        for half in (0, 1):
            head = self.flash.read(half * self.half_bytes, 12)
            if struct.unpack("<I", head[8:])[0] == zlib.crc32(head[:8]):
                heads.append((struct.unpack("<I", head[:4])[0], half))
        self.generation, self.half = max(heads)
        log = self.flash.read(self.half * self.half_bytes, self.half_bytes)
        self.at = 16
        while log[self.at] != 0xFF:
            name_bytes, length = struct.unpack("<BH", log[self.at : self.at + 3])
            end = self.at + 3 + name_bytes + (0 if length == 0xFFFE else length)
            body, crc = log[self.at : end], log[end : end + 4]
            good = len(crc) == 4 and crc == struct.pack("<I", zlib.crc32(body))
            if self.HAS_CRC and not good:
                break
            name = body[3 : 3 + name_bytes].decode(errors="replace")
            self.values.pop(name, None)
            if length != 0xFFFE:
                self.values[name] = body[3 + name_bytes :]
            self.at = end + 4
        if self.HAS_CRC and log[self.at :].strip(b"\xff"):
            # What was torn is not written over.
            self._begin(1 - self.half, self.generation + 1)

    def write(self, name: str, value: bytes) -> None:
        self._change(name, value)
        self.values[name] = value

    def remove(self, name: str) -> None:
        self._change(name, None)
        self.values.pop(name, None)

    def _change(self, name: str, value: Optional[bytes]) -> None:
        try:
            self._append(name, value)
        except OSError:
            self._begin(1 - self.half, self.generation + 1)
            self._append(name, value)

    def read(self, name: str) -> Optional[bytes]:
        return self.values.get(name)

    def sync(self) -> None:
        pass

    def unmount(self) -> None:
        self.values = {}

    def check(self) -> None:
        assert self.at <= self.half_bytes


class Careless(Log):
    """Believes each record."""

    HAS_CRC = False


class HeadFirst(Log):
    """Writes the head of a half before its values: power that goes in between loses them."""

    def _begin(self, half: int, generation: int) -> None:
        values, self.values = self.values, {}
        super()._begin(half, generation)
        self.values = values
        for name, value in values.items():
            self._append(name, value)


class Forgetful(Log):
    """Keeps what it is told in memory until it is unmounted."""

    def _change(self, name: str, value: Optional[bytes]) -> None:
        if name.endswith("0"):
            super()._change(name, value)


class Ftl:
    """Translation layer of a NAND: each page has a sector, and its number and a counter in the OOB. Never erases."""

    def __init__(self, flash: floatgate.Mtd) -> None:
        self.flash, self.page = flash, flash.geometry.write_bytes
        self.map: dict[int, int] = {}
        self.next = 0

    def format(self) -> None:
        pass

    def mount(self) -> None:
        self.map, self.next, counter = {}, 0, 0
        while True:
            addr = self.next * self.page
            page = self.flash.read(addr, self.page)
            if page == b"\xff" * self.page:
                break
            magic, lba, length, crc = struct.unpack("<IIII", page[:16])
            if magic == 0x4C54462E and crc == zlib.crc32(page[16 : 16 + length]):
                self.map[lba] = self.next
                counter += 1
            self.next += 1

    def write(self, lba: int, data: bytes) -> None:
        head = struct.pack("<IIII", 0x4C54462E, lba, len(data), zlib.crc32(data))
        # A page that was torn is left out, and so is the one behind it, which may look erased.
        self.flash.write(self.next * self.page, (head + data).ljust(self.page, b"\0"))
        self.map[lba] = self.next
        self.next += 1

    def read(self, lba: int) -> bytes:
        if lba not in self.map:
            return bytes(512)
        return self.flash.read(self.map[lba] * self.page + 16, 512)

    def sync(self) -> None:
        pass


def test_a_log_with_checksums_survives() -> None:
    result = floatgate.powercut_store(Log, NOR, steps=30, cuts=40, recovery_cuts=1)
    assert [failure.reason for failure in result] == []
    assert result.runs == 40 <= result.cuts and result.operations >= 20
    assert repr(result).startswith("<StorePowercut of ")
    # Long values fill a half, and are copied to the other one.
    full = floatgate.powercut_store(Log, NOR, names=4, value_bytes=(200, 900), steps=80, cuts=40)
    assert [failure.reason for failure in full] == [] and full.operations > 120


def test_values_that_are_copied_behind_their_head_are_lost() -> None:
    result = floatgate.powercut_store(HeadFirst, NOR, names=4, value_bytes=(200, 900), steps=80, cuts=80, recovery_cuts=0)
    lost = next(failure for failure in result if failure.kind == "lost")
    assert lost.repeats and len(lost.history) < lost.steps_before and "has no value" in lost.reason
    assert floatgate.powercut_store(HeadFirst, NOR, names=4, value_bytes=(200, 900), replay=lost.id).failed_runs == 1


@pytest.mark.skipif("FLOATGATE_TEST_ALL" not in __import__("os").environ, reason="slow")
def test_a_log_with_checksums_survives_each_cut() -> None:
    result = floatgate.powercut_store(Log, NOR, names=4, value_bytes=(200, 900), steps=80, cuts="all", recovery_cuts=2)
    assert [failure.reason for failure in result] == []


def test_a_log_without_checksums_fails_in_a_short_history_that_repeats() -> None:
    result = floatgate.powercut_store(Careless, NOR, steps=10, cuts=16, seed=3)
    assert result.failed_runs > 0
    first = result.rows[0]
    assert first.repeats and len(first.history) <= 4
    again = floatgate.powercut_store(Careless, NOR, steps=10, cuts=16, replay=first.id)
    assert [(one.kind, one.reason) for one in again] == [(first.kind, first.reason)]
    assert floatgate.powercut_store(Log, NOR, replay=first.id).failed_runs == 0
    assert result.to_pandas().shape[0] == len(result.to_dict()["failures"])


def test_values_that_were_never_written_are_lost() -> None:
    result = floatgate.powercut_store(Forgetful, NOR, steps=24, cuts=20)
    lost = next(failure for failure in result if failure.kind in ("lost", "step"))
    assert "which was" in lost.reason


def test_an_ftl_on_nand() -> None:
    result = floatgate.powercut_store(Ftl, NAND, names=range(16), value_bytes=512, initial=bytes(512), steps=16, cuts=20)
    assert {failure.kind for failure in result} <= {"step", "check", "recovery"}
    # A page that was torn is not erased: its bits are wrong beyond the ECC, which an FTL has to expect.
    assert all("uncorrectable" in failure.reason or "not erased" in failure.reason for failure in result)


def test_a_store_that_never_ends_hangs() -> None:
    class Endless(Log):
        def sync(self) -> None:
            while True:
                try:
                    self.flash.read(0, 1)
                except Exception:
                    pass

    from floatgate import _store

    before, _store.CALLS_MAX = _store.CALLS_MAX, 1000
    try:
        result = floatgate.powercut_store(Endless, NOR, steps=24, cuts=1)
    finally:
        _store.CALLS_MAX = before
    assert [(failure.kind, failure.repeats) for failure in result] == [("hang", True)]


def test_power_that_is_gone_cannot_be_swallowed() -> None:
    class Stubborn(Log):
        def write(self, name: str, value: bytes) -> None:
            try:
                super().write(name, value)
            except Exception:
                pass

    assert floatgate.powercut_store(Stubborn, NOR, steps=10, cuts=8).failed_runs == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"cuts": 0}, "cuts is 0"),
        ({"names": []}, "names"),
        ({"names": 0}, "names is 0"),
        ({"value_bytes": (4, 2)}, "value_bytes is 2"),
        ({"recovery_cuts": -1}, "recovery_cuts"),
        ({"replay": "store:0:1"}, "is not the id"),
        ({"replay": "store:0:0-99999999999:1.late"}, "is not the id"),
        ({"replay": "store:0:0:9999.late"}, "fewer flash operations"),
    ],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        floatgate.powercut_store(Log, NOR, **wrong)
