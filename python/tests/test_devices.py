"""Devices keep what is written, and their clocks go on."""

from __future__ import annotations

from array import array

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
    with pytest.raises(floatgate.Error):
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
