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
    devices = (
        floatgate.Mtd("am62a-w35n01jw"),
        floatgate.BlockDevice("kingston-class-10"),
        floatgate.SpiBus("stm32-n25q128a"),
        floatgate.NandBus("imx6-mx30lf2g18ac"),
    )
    for device in devices:
        with pytest.raises(TypeError, match=r"cannot be copied or pickled: `fork\(\)` makes a copy"):
            copied(device)


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
        flash.read_oob(0, "all")  # type: ignore[arg-type]


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


@pytest.mark.parametrize("setup", ["am62a-w35n01jw", "imx6-mx30lf2g18ac", "stm32-n25q128a"])
def test_faults_come_when_they_are_planned(setup: str) -> None:
    flash = floatgate.Mtd(setup)
    block, page = flash.geometry.erase_bytes, max(flash.geometry.write_bytes, 256)
    flash.fail(block, program=False)
    flash.erase(0)
    with pytest.raises(floatgate.FlashError) as erase:
        flash.erase(block)
    assert erase.value.kind == "erase failed"
    flash.fail(block, program=False, erase=False)
    flash.erase(block)
    flash.fail(0, erase=False, after_ns=1_000_000_000)
    copy = flash.fork()
    flash.write(0, bytes(page))
    flash.wait(1_000_000_000)
    flash.erase(0)
    for device in (flash, copy):
        device.wait(1_000_000_000)
        with pytest.raises(floatgate.FlashError) as program:
            device.write(0, bytes(page))
        assert program.value.kind == "program failed"
    with pytest.raises(ValueError, match="beyond the"):
        flash.fail(flash.geometry.size_bytes)


def test_faults_of_a_partition_are_at_its_addresses() -> None:
    flash = floatgate.Mtd("am62a-w35n01jw", {"partition.offset": "1MiB", "partition.size": "4MiB"})
    flash.fail(0)
    with pytest.raises(floatgate.FlashError):
        flash.erase(0)
    flash.erase(flash.geometry.erase_bytes)


def test_bits_are_wrong_until_the_block_is_erased() -> None:
    flash = floatgate.Mtd("imx6-mx30lf2g18ac")
    page = flash.geometry.write_bytes
    flash.write(page, bytes(page))
    flash.flip(page + 7, 5)
    flash.flip(page, 0, oob_byte=40)
    assert flash.read(page, page) == bytes(page)
    data, oob = flash.read_oob(page, "raw")
    assert data[7] == 1 << 5 and sum(data) == 1 << 5
    for bit in range(8):
        flash.flip(page + 100, bit)
    with pytest.raises(floatgate.FlashError) as caught:
        flash.read(page, page)
    assert caught.value.kind == "uncorrectable"
    flash.erase(0)
    assert flash.read(page, 1) == b"\xff"
    for wrong in ({"bit": 8}, {"oob_byte": 64}):
        with pytest.raises(floatgate.ArgumentError, match="^(bit|oob_byte): "):
            flash.flip(0, **wrong)
    nor = floatgate.Mtd("stm32-n25q128a")
    nor.flip(1000, 1)
    assert nor.read(1000, 1) == b"\xfd"


def test_blocks_wear_and_pages_lose_charge() -> None:
    flash = floatgate.Mtd("imx6-mx30lf2g18ac", {"ecc.strength": 2})
    page, block = flash.geometry.write_bytes, flash.geometry.erase_bytes
    flash.wear(0, 300_000)
    assert flash.cycles(0) == flash.cycles(block) + 300_000
    for addr in range(0, block, page):
        flash.write(addr, b"\0" * page)
        flash.write(block + addr, b"\0" * page)

    def lost(start: int) -> int:
        count = 0
        for addr in range(start, start + block, page):
            try:
                flash.read(addr, page)
            except floatgate.FlashError:
                count += 1
        return count

    assert lost(0) == lost(block) == 0
    flash.bake(3650, 125)
    assert lost(0) > lost(block) + 10
    with pytest.raises(ValueError, match="no model of wear"):
        floatgate.Mtd("stm32-n25q128a").cycles(0)
    for days in (-1, float("nan")):
        with pytest.raises(floatgate.ArgumentError, match="^days: ") as caught:
            flash.bake(days, 20)
        assert caught.value.help == "give 0 to 1000000"


def test_marks_of_bad_blocks_stay() -> None:
    flash = floatgate.Mtd("imx6-mx30lf2g18ac")
    block = flash.geometry.erase_bytes
    flash.mark_bad(3 * block)
    flash.restart()
    assert [flash.is_bad(number * block) for number in range(5)] == [False, False, False, True, False]
    with pytest.raises(floatgate.FlashError) as caught:
        flash.erase(3 * block)
    assert caught.value.kind == "bad block"


def test_otp_is_written_once_and_locked() -> None:
    flash = floatgate.Mtd("stm32-n25q128a")
    region = flash.otp_regions()[0]
    assert not region.locked and region.length >= 64
    flash.otp_write(region.start, b"serial 1")
    assert flash.fork().otp_read(region.start, 8) == b"serial 1"
    flash.otp_lock(region.start, region.length)
    assert flash.otp_regions()[0].locked
    with pytest.raises(floatgate.FlashError) as caught:
        flash.otp_write(region.start, b"serial 2")
    assert caught.value.kind == "write protected"
    with pytest.raises(ValueError, match="^area: "):
        flash.otp_regions("maker")  # type: ignore[arg-type]


def test_a_spi_bus_is_cut_forked_and_observed() -> None:
    bus = floatgate.SpiBus("stm32-n25q128a")
    seen: list[floatgate.Span] = []
    bus.observe(seen.append)
    assert _erase_and_program(bus, b"one") == b"one"
    assert {span.resource for span in seen} >= {"bus"} and sum(bus.breakdown_ns.values()) == bus.now
    bus.observe(None)
    other = bus.fork()
    # Power goes in the erase.
    bus.cut(1, 0.5)
    with pytest.raises(floatgate.PowerLost, match="restart"):
        _erase_and_program(bus, b"two")
    assert not bus.powered
    bus.restart()
    assert bus.powered and bus.xfer(0x03, 0, read=3) not in (b"one", b"two")
    assert other.xfer(0x03, 0, read=3) == b"one"
    # Without an order, too, the chip forgets what it has in registers.
    other.xfer(0x06)
    assert other.xfer(0x05, read=1) == b"\x02"
    other.restart()
    assert other.xfer(0x05, read=1) == b"\x00"
    assert other.violations == []
    with pytest.raises(floatgate.FlashError):
        other.xfer(0x02, 0x123456, data=b"x")
    assert [(one.sent.hex(), one.rule) for one in other.violations] == [("02123456", "program or erase without write enable")]
    assert other.violation_count == 1


def _program_page(bus: floatgate.NandBus, row: int, data: bytes) -> bytes:
    """Programs a page of a raw NAND and reads its beginning; the status is checked."""
    address = bytes(2) + row.to_bytes(3, "little")
    bus.command(0x80)
    bus.address(address)
    bus.write(data)
    bus.command(0x10)
    bus.wait_ready()
    bus.command(0x70)
    assert bus.read_register(1)[0] & 1 == 0
    return _read_page(bus, row, len(data))


def _read_page(bus: floatgate.NandBus, row: int, length: int) -> bytes:
    bus.command(0x00)
    bus.address(bytes(2) + row.to_bytes(3, "little"))
    bus.command(0x30)
    bus.wait_ready()
    return bus.read(length)


def test_a_driver_in_python_sends_cycles_to_a_raw_nand() -> None:
    bus = floatgate.NandBus("imx6-mx30lf2g18ac")
    bus.command(0xFF)
    assert not bus.ready
    bus.wait_ready()
    bus.command(0x90)
    bus.address(b"\0")
    assert bus.read_register(2).hex() == "c2da"
    seen: list[floatgate.Span] = []
    bus.observe(seen.append)
    assert _program_page(bus, 0, b"cycles") == b"cycles"
    assert [span.what for span in seen if span.resource == "die 0"] == ["busy", "busy"]
    assert bus.violations == [] and sum(bus.breakdown_ns.values()) == bus.now
    other = bus.fork()
    bus.cut(1, 0.2)
    with pytest.raises(floatgate.PowerLost):
        _program_page(bus, 1, bytes(2048))
    bus.restart()
    bus.command(0xFF)
    bus.wait_ready()
    assert _read_page(bus, 1, 2048) != bytes(2048)
    assert _read_page(bus, 0, 6) == b"cycles"
    assert _read_page(other, 1, 2048) == b"\xff" * 2048
    # A command that no chip has.
    other.command(0xB7)
    assert other.violation_count == 1 and other.violations[0].sent == b"\xb7"
    other.set_interface("sdr4")
    with pytest.raises(ValueError, match="^interface: "):
        other.set_interface("sdr9")
    with pytest.raises(floatgate.Error, match="no raw NAND"):
        floatgate.NandBus("stm32-n25q128a")


def test_a_card_is_cut_and_observed() -> None:
    card = floatgate.BlockDevice("kingston-class-10")
    seen: list[floatgate.Span] = []
    card.observe(seen.append)
    card.write(0, b"a" * 4096)
    card.flush()
    assert {"bus", "controller", "die 0"} <= {span.resource for span in seen}
    card.observe(None)
    other = card.fork()
    for device, order in ((card, {"operation": 1}), (other, {"after_ns": 0})):
        device.cut(**order)
        with pytest.raises(floatgate.PowerLost, match="restart"):
            for number in range(64):
                device.write(number * 128, b"b" * 65536)
            device.flush()
        assert not device.powered
        before = device.now
        device.restart()
        assert device.powered and device.now > before
        # Each sector has what was flushed, or something later.
        assert device.read(0, 512) in (b"a" * 512, b"b" * 512)
    card.cut(1_000_000)
    card.cancel_cut()
    card.write(0, b"c" * 512)
    assert card.write_amplification > 0 and card.erases >= 0
    with pytest.raises(floatgate.ArgumentError, match="^operation: 0 is out of range"):
        card.cut(0)
