"""The plugin of pytest: its fixtures, its markers, and a test that runs once for each power cut."""

from __future__ import annotations

import pytest

pytest_plugins = ("pytester",)

TESTS = """
    import floatgate
    import pytest

    def test_a_flash_of_the_ini_file(floatgate_flash):
        assert isinstance(floatgate_flash, floatgate.Mtd)
        assert "imx6-mx30lf2g18ac" in repr(floatgate_flash)

    @pytest.mark.floatgate("am62a-w35n01jw", bad_blocks=2, seed=1)
    def test_a_flash_of_a_marker(floatgate_flash):
        flash = floatgate_flash
        blocks = range(0, flash.geometry.size_bytes, flash.geometry.erase_bytes)
        assert sum(flash.is_bad(addr) for addr in blocks) == 2

    @pytest.mark.floatgate_card("fake-wraps-32g")
    def test_a_card(floatgate_card):
        assert isinstance(floatgate_card, floatgate.BlockDevice)

    @pytest.mark.floatgate_cuts(range(1, 5), shares=(0.0, 0.5))
    def test_a_counter_that_is_written_twice(floatgate_flash, floatgate_cut):
        flash, page = floatgate_flash, floatgate_flash.geometry.write_bytes
        block = flash.geometry.erase_bytes
        copies = [0, block]
        with floatgate_cut:
            for place in copies:
                flash.erase(place)
                flash.write(place, b"1" * page)
        assert flash.powered
        assert floatgate_cut.happened
        def readable(place):
            try:
                return flash.read(place, page)
            except floatgate.FlashError:
                return b""
        # Before the first copy is complete there is nothing, after that one of both is.
        if floatgate_cut.operation > 2:
            assert b"1" * page in [readable(place) for place in copies]
"""


def test_fixtures_and_power_cuts(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfloatgate_setup = imx6-mx30lf2g18ac\n")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("--strict-markers", "-v")
    result.assert_outcomes(passed=3 + 8)
    result.stdout.fnmatch_lines(["*test_a_counter_that_is_written_twice?cut1-0%?*", "*cut4-50%*"])
    shown = pytester.runpytest_inprocess("--markers")
    shown.stdout.fnmatch_lines(["@pytest.mark.floatgate_cuts(operations*"])
