"""Devices keep what is written, and their clocks go on."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from array import array
from collections.abc import Callable
from typing import Any

import floatgate
import numpy
import pytest


def test_flash_is_erased_written_and_read() -> None:
    flash = floatgate.Mtd("am62a-w35n01jw")
    page = flash.geometry.write_bytes
    data = numpy.random.default_rng(0).integers(0, 256, page, dtype=numpy.uint8)
    started = flash.now
    flash.erase(0)
    erased = flash.now
    flash.write(0, data)
    written = flash.now
    assert flash.read(0, page) == data.tobytes()
    assert started < erased < written < flash.now
    buffer = bytearray(page)
    flash.readinto(0, buffer)
    assert buffer == data.tobytes()
    into = numpy.zeros(16, dtype=numpy.uint8)
    flash.readinto(8, into)
    assert (into == data[8:24]).all()
    assert flash.read(page, 4) == b"\xff" * 4
    assert sum(flash.breakdown_ns.values()) <= flash.now
    assert not flash.is_bad(0)


def test_a_page_is_programmed_once() -> None:
    flash = floatgate.Mtd("am62a-w35n01jw")
    page = flash.geometry.write_bytes
    flash.write(0, b"\x0f" * page)
    with pytest.raises(floatgate.Error, match="not erased"):
        flash.write(0, b"\x33" * page)
    assert flash.read(0, page) == b"\x0f" * page


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_device_is_copied_by_fork_alone(copied: Callable[[Any], Any]) -> None:
    for device in (floatgate.Mtd("am62a-w35n01jw"), floatgate.BlockDevice("kingston-class-10")):
        with pytest.raises(TypeError, match=r"cannot be copied or pickled: `fork\(\)` makes a copy"):
            copied(device)
    with pytest.raises(TypeError, match="SpiBus cannot be copied or pickled: make another one"):
        copied(floatgate.SpiBus("stm32-n25q128a"))


@pytest.mark.parametrize("device", ["flash", "card"])
def test_buffers_are_used_as_they_are(device: str) -> None:
    flash = floatgate.Mtd("am62a-w35n01jw") if device == "flash" else floatgate.BlockDevice("kingston-class-10")
    values = numpy.arange(512, dtype="<f8")
    flash.write(0, values)
    assert flash.read(0, 4096) == values.tobytes()
    # Any format and any number of dimensions, and a part of a buffer.
    into = numpy.zeros((16, 32), dtype="<f8")
    flash.readinto(0, into)
    assert (into.ravel() == values).all()
    room = bytearray(8192)
    flash.readinto(0, memoryview(room)[2048:6144])
    assert room == bytes(2048) + values.tobytes() + bytes(2048)
    every_other = numpy.arange(8192, dtype=numpy.uint8)[::2]
    flash.write(4096 if device == "flash" else 8, every_other)
    assert flash.read(4096 if device == "flash" else 8, 4096) == every_other.tobytes()
    for wrong in (bytes(4096), memoryview(room).toreadonly(), numpy.zeros(8192, dtype=numpy.uint8)[::2]):
        with pytest.raises(BufferError, match="read-only, or its bytes"):
            flash.readinto(0, wrong)
    for nothing in ("text", 7, None):
        with pytest.raises(TypeError):
            flash.write(0, nothing)
        with pytest.raises((TypeError, BufferError)):
            flash.readinto(0, nothing)
    objects = numpy.array([None, 1], dtype=object)
    with pytest.raises(TypeError, match="buffer of objects"):
        flash.write(0, objects)
    with pytest.raises(TypeError, match="buffer of objects"):
        flash.readinto(0, objects)
    empty = bytearray()
    empty_array = numpy.zeros(0, dtype=numpy.uint8)
    for buffer in (empty, empty_array):
        flash.readinto(0, buffer)
        flash.write(8192 if device == "flash" else 16, buffer)
    # The buffer is held no longer than the call.
    room.extend(b"more")


def test_no_copy_of_a_buffer_is_made() -> None:
    card = floatgate.BlockDevice("kingston-class-10")
    buffer = numpy.full(16 << 20, 7, dtype=numpy.uint8)
    tracemalloc.start()
    try:
        card.write(0, buffer)
        card.readinto(0, buffer)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_oob_is_written_with_its_page() -> None:
    flash = floatgate.Mtd("am62a-w35n01jw")
    geometry = flash.geometry
    oob = array("B", range(geometry.oob_free_bytes))
    flash.write_oob(0, memoryview(b"\x5a" * geometry.write_bytes), oob)
    data, read = flash.read_oob(0)
    assert (data, read) == (b"\x5a" * geometry.write_bytes, oob.tobytes())
    assert len(flash.read_oob(0, "raw")[1]) == geometry.oob_bytes
    with pytest.raises(floatgate.Error, match="no mode"):
        flash.read_oob(0, "all")


def test_rules_of_flash_are_kept() -> None:
    flash = floatgate.Mtd("imx6-mx30lf2g18ac")
    geometry = flash.geometry
    with pytest.raises(floatgate.Error):
        flash.read(geometry.size_bytes, 1)
    with pytest.raises(floatgate.Error, match="help: `geometry` has the sizes"):
        flash.write(1, b"x")
    with pytest.raises(floatgate.Error):
        flash.erase(1)
    with pytest.raises(floatgate.Error, match="in one call"):
        flash.read(0, 1 << 40)
    bad = floatgate.Mtd("imx6-mx30lf2g18ac", seed=3, bad_blocks=5)
    assert sum(bad.is_bad(addr) for addr in range(0, geometry.size_bytes, geometry.erase_bytes)) == 5


def test_cards_are_written_and_read() -> None:
    card = floatgate.BlockDevice("kingston-class-10")
    assert card.read(9, 512) == bytes(512)
    started = card.now
    card.write(8, bytearray(b"a" * 1024))
    card.flush()
    assert card.now > started
    buffer = bytearray(1024)
    card.readinto(8, buffer)
    assert buffer == b"a" * 1024
    card.discard(8, 1)
    assert card.read(8, 1024) == bytes(512) + b"a" * 512
    with pytest.raises(floatgate.Error, match="whole number of sectors"):
        card.write(0, b"x")
    with pytest.raises(floatgate.Error, match="beyond the device"):
        card.read(card.size_bytes // 512, 512)


def test_fakes_have_the_size_that_they_claim() -> None:
    fake = floatgate.BlockDevice("fake-wraps-32g")
    assert fake.size_bytes > 30 * 10**9
    # Its beginning is found again behind its real end.
    found = floatgate.probe("fake-wraps-32g", write=True, noise=0)
    real = found["capacity"].value
    assert isinstance(real, int) and real < fake.size_bytes == found.capacity_bytes
    fake.write(0, b"a" * 512)
    assert fake.read(real // 512, 512) == b"a" * 512


def test_forks_go_their_own_way() -> None:
    flash = floatgate.Mtd("am62a-w35n01jw")
    page = flash.geometry.write_bytes
    flash.write(0, b"a" * page)
    copy = flash.fork()
    assert (copy.now, copy.geometry, copy.read(0, 1)) == (flash.now, flash.geometry, b"a")
    copy.write(page, b"b" * page)
    assert (flash.read(page, 1), copy.read(page, 1)) == (b"\xff", b"b")
    card = floatgate.BlockDevice("kingston-class-10")
    other = card.fork()
    other.write(0, b"c" * 512)
    assert (card.read(0, 512), other.read(0, 512)) == (bytes(512), b"c" * 512)
    assert card.breakdown_ns != other.breakdown_ns


@pytest.mark.parametrize("setup", ["am62a-w35n01jw", "imx6-mx30lf2g18ac", "stm32-n25q128a"])
def test_power_is_lost_in_a_program_and_comes_back(setup: str) -> None:
    flash = floatgate.Mtd(setup)
    block, page = flash.geometry.erase_bytes, max(flash.geometry.write_bytes, 256)
    flash.write(0, b"\0" * page)
    flash.cut(2, 0.3)
    flash.write(block, b"\0" * page)
    assert flash.powered
    with pytest.raises(floatgate.Error, match="power"):
        flash.write(2 * block, b"\0" * page)
    assert not flash.powered
    with pytest.raises(floatgate.Error, match="power"):
        flash.read(0, 1)
    lost = flash.now
    flash.restart()
    assert flash.powered and flash.now >= lost + 100_000_000
    assert flash.read(0, page) == flash.read(block, page) == b"\0" * page
    flash.cut()
    with pytest.raises(floatgate.Error, match="power"):
        flash.erase(0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"operation": 0},
        {"operation": -1},
        {"operation": float("nan")},
        {"operation": 1, "share": float("nan")},
        {"operation": 1, "share": -0.1},
        {"operation": 1, "share": 1.1},
        {"after_ns": -1},
        {"after_ns": float("nan")},
    ],
)
def test_a_cut_that_never_comes_is_refused(wrong: dict[str, Any]) -> None:
    flash = floatgate.Mtd("am62a-w35n01jw")
    with pytest.raises((ValueError, TypeError), match=f"^{list(wrong)[-1]}: "):
        flash.cut(**wrong)
    flash.erase(0)
    assert flash.powered


def test_an_observer_sees_what_resources_do() -> None:
    flash = floatgate.Mtd("imx6-mx30lf2g18ac")
    seen: list[floatgate.Span] = []
    flash.observe(seen.append)
    before = flash.now
    flash.read(0, 2048)
    assert {"tR"} <= {span.what for span in seen}
    assert all(before <= span.start_ns < span.end_ns <= flash.now for span in seen)
    count = len(seen)
    with pytest.raises(floatgate.Error):
        flash.erase(1)
    with pytest.raises(TypeError, match="observer"):
        flash.observe(3)  # type: ignore[arg-type]
    flash.observe(None)
    flash.read(0, 2048)
    assert len(seen) == count

    def once(span: floatgate.Span) -> None:
        seen.append(span)
        flash.observe(None)

    flash.observe(once)
    flash.read(0, 2048)
    assert len(seen) == count + 1

    def fail(span: floatgate.Span) -> None:
        raise ZeroDivisionError

    flash.observe(fail)
    with pytest.raises(ZeroDivisionError):
        flash.erase(0)


def _erase_and_program(bus: floatgate.SpiBus, data: bytes) -> bytes:
    """A driver of a SPI NOR: erases the first sector, programs a page, and reads it."""

    def wait_until_ready() -> None:
        while bus.xfer(0x05, read=1)[0] & 1:
            bus.wait(10_000)

    for opcode, payload in ((0xD8, b""), (0x02, data)):
        bus.xfer(0x06)
        bus.xfer(opcode, 0, data=payload)
        wait_until_ready()
    return bus.xfer(0x03, 0, read=len(data))


def test_a_driver_in_python_speaks_the_command_set() -> None:
    bus = floatgate.SpiBus("stm32-n25q128a")
    assert bus.xfer(0x9F, read=3).hex() == "20ba18"
    started = bus.now
    assert _erase_and_program(bus, bytes(range(256))) == bytes(range(256))
    # A typical sector erase takes 0.7 s.
    assert bus.now - started > 10**8
    with pytest.raises(floatgate.Error, match="refuses"):
        bus.xfer(0xFE, read=1)
    with pytest.raises(floatgate.Error, match="sends or reads"):
        bus.xfer(0x02, 0, data=b"x", read=1)
    with pytest.raises(floatgate.Error, match="address bytes"):
        bus.xfer(0x03, 0, address_bytes=5, read=1)
    with pytest.raises(floatgate.Error, match="help: modes are"):
        bus.xfer(0x03, 0, read=1, mode="1")
    with pytest.raises(floatgate.Error, match="help"):
        bus.xfer(0x03, 0, read=1 << 40)
    with pytest.raises(floatgate.Error, match="parallel bus"):
        floatgate.SpiBus("imx6-mx30lf2g18ac")


def test_a_spi_nand_is_driven_too() -> None:
    bus = floatgate.SpiBus("am62a-w35n01jw")
    assert any(bus.xfer(0x9F, read=4))
    bus.xfer(0x13, 0, address_bytes=3)
    while bus.xfer(0x0F, 0xC0, address_bytes=1, read=1)[0] & 1:
        pass
    assert bus.xfer(0x03, 0, address_bytes=2, dummy_cycles=8, read=4) == b"\xff" * 4
