"""Check of an image of flash against a budget: ``python -m floatgate.check IMAGE``.

The image is checked as ``floatgate image check`` does. With a setup, the same filesystem is mounted, aged and exposed to power cuts
on the simulated board. The exit status is 0 if everything is within the budget, 1 if something exceeds it, and 2 for a wrong
argument.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Optional

from ._error import Error
from ._image import Image
from ._studies import age, fs, powercut
from ._types import Filesystem

#: Units of sizes, as in ``--max-size 16MiB``.
UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "GB": 10**9, "MB": 10**6, "kB": 10**3, "B": 1}

#: Rows of ``floatgate fs`` that make up a mount.
MOUNTS = ("mount many small files: attach", "mount many small files")


@dataclass(frozen=True)
class Verdict:
    """A figure with its budget.

    Attributes
    ----------
    check : str
        ``image``, ``size``, ``attach``, ``life`` or ``power cuts``.
    found, budget : str
        The figure and the budget, with units.
    good : bool
        True if the figure is within the budget.
    """

    check: str
    found: str
    budget: str
    good: bool


def size_bytes(text: str) -> int:
    """Bytes of a size such as ``16MiB``.

    Parameters
    ----------
    text : str
        A number of bytes, with or without a unit.

    Returns
    -------
    int
        Number of bytes.

    Raises
    ------
    argparse.ArgumentTypeError
        The text is not a size.

    Examples
    --------
    >>> size_bytes("16MiB")
    16777216
    """
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    try:
        return int(float(text[: len(text) - len(unit)]) * UNITS.get(unit, 1))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 16MiB or a number of bytes") from None


def _kind(image: Image) -> Filesystem:
    """The filesystem in an image."""
    found = json.dumps(image.info().to_dict()).lower()
    return "jffs2" if '"jffs2"' in found and "ubifs" not in found else "ubifs"


def check(
    image: str,
    setup: Optional[str] = None,
    *,
    max_size: Optional[int] = None,
    max_attach_ms: Optional[float] = None,
    min_years: Optional[float] = None,
    write_per_day: int = 10 << 20,
    power_cuts: int = 0,
    overrides: Sequence[str] = (),
) -> list[Verdict]:
    """Check an image against a budget.

    Parameters
    ----------
    image : str
        Path of the image.
    setup : str, optional
        Name or path of the setup of the board. It is needed for all checks except those of the image itself and its size.
    max_size : int, optional
        Maximum size of the file in bytes.
    max_attach_ms : float, optional
        Maximum time in milliseconds until a filesystem full of small files is mounted, UBI's attach included.
    min_years : float, optional
        Required life of a chip in years.
    write_per_day : int
        Bytes written per day during these years.
    power_cuts : int
        Number of power cuts. After each one, the filesystem must have all synchronised data.
    overrides : sequence of str
        Overrides of the setup, ``key=value``.

    Returns
    -------
    list of Verdict
        One for each requested check.

    Raises
    ------
    Error
        The image or the setup cannot be read, or a check needs a setup.

    Examples
    --------
    >>> check("rootfs.ubi", "imx6-mx30lf2g18ac", max_size=16 << 20)  # doctest: +SKIP
    """
    opened = Image(image)
    outcome, kind = opened.check().outcome, _kind(opened)
    verdicts = [Verdict("image", outcome, "clean", outcome == "clean")]
    if max_size is not None:
        size = os.stat(image).st_size
        verdicts.append(Verdict("size", f"{size} bytes", f"{max_size} bytes", size <= max_size))
    if setup is None:
        if max_attach_ms is not None or min_years is not None or power_cuts:
            raise Error("attach time, life and power cuts need a board", "name its setup: `floatgate list setups` has them")
        return verdicts
    sets = dict(entry.split("=", 1) for entry in overrides)
    if max_attach_ms is not None:
        rows = fs(setup, sets, filesystems=[kind], tests=["mount"]).rows
        taken = sum(row.ns for row in rows if row.name in MOUNTS) / 1e6
        verdicts.append(Verdict("attach", f"{taken:.1f} ms", f"{max_attach_ms:g} ms", taken <= max_attach_ms))
    if min_years is not None:
        run = age(setup, sets, fs=kind, years=min_years, write_bytes_per_day=write_per_day, scrub_days=None if kind == "jffs2" else 91)
        found = f"{run.survived} of {len(run)} chips live {min_years:g} {'year' if min_years == 1 else 'years'}"
        verdicts.append(Verdict("life", found, "all", run.survived == len(run)))
    if power_cuts:
        cuts = powercut(setup, sets, fs=kind, cuts=power_cuts)
        found = f"{cuts.failure_count} failures in {cuts.cuts} power cuts"
        verdicts.append(Verdict("power cuts", found, "0 failures", cuts.failure_count == 0))
    return verdicts


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        Exit status: 0 within the budget, 1 outside it, 2 for a wrong argument.

    Raises
    ------
    SystemExit
        An argument cannot be parsed.

    Examples
    --------
    >>> main(["rootfs.ubi", "--max-size", "16MiB"])  # doctest: +SKIP
    0
    """
    parser = argparse.ArgumentParser(prog="python -m floatgate.check", description="Check an image of flash against a budget.")
    parser.add_argument("image", help="image or dump: UBI, UBIFS or JFFS2")
    parser.add_argument("--setup", metavar="SETUP", help="setup of the board: a name of `floatgate list setups`, or a TOML file")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="override of the setup")
    parser.add_argument("--max-size", metavar="BYTES", type=size_bytes, help="most bytes of the file, such as 16MiB")
    parser.add_argument("--max-attach-ms", metavar="MS", type=float, help="most milliseconds until the full filesystem is mounted")
    parser.add_argument("--min-years", metavar="YEARS", type=float, help="years that a chip must live")
    parser.add_argument("--write-per-day", metavar="BYTES", type=size_bytes, default=10 << 20, help="bytes written in a day [10MiB]")
    parser.add_argument("--power-cuts", metavar="N", type=int, default=0, help="number of power cuts to survive")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(arguments)
    try:
        verdicts = check(
            args.image,
            args.setup,
            max_size=args.max_size,
            max_attach_ms=args.max_attach_ms,
            min_years=args.min_years,
            write_per_day=args.write_per_day,
            power_cuts=args.power_cuts,
            overrides=args.set,
        )
    except Error as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    if args.json:
        sys.stdout.write(json.dumps([asdict(verdict) for verdict in verdicts]) + "\n")
    else:
        for verdict in verdicts:
            sys.stdout.write(f"{'ok  ' if verdict.good else 'FAIL'} {verdict.check}: {verdict.found} (budget: {verdict.budget})\n")
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with open(summary, "a", encoding="utf-8") as file:
            file.write(f"### {os.path.basename(args.image)}\n\n| check | found | budget | |\n|---|---|---|---|\n")
            for verdict in verdicts:
                file.write(f"| {verdict.check} | {verdict.found} | {verdict.budget} | {'ok' if verdict.good else 'FAIL'} |\n")
    return 0 if all(verdict.good for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
