"""Filesystems of flash and cards for unblob: handlers find the chunks, floatgate extracts them (entry point ``unblob_v1``)."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from pathlib import Path
from typing import Any, Optional

from unblob.handlers.filesystem import (  # type: ignore[import-not-found,unused-ignore]
    cramfs,
    extfs,
    fat,
    jffs2,
    romfs,
    squashfs,
    ubi,
    yaffs,
)
from unblob.handlers.filesystem.android import erofs  # type: ignore[import-not-found,unused-ignore]
from unblob.models import (  # type: ignore[import-not-found,unused-ignore]
    Extractor,
    ExtractError,
    ExtractResult,
    Handler,
    HandlerDoc,
    HandlerType,
    HexString,
    Reference,
    Regex,
    ValidChunk,
)
from unblob.plugins import hookimpl  # type: ignore[import-not-found,unused-ignore]
from unblob.report import ExtractCommandFailedReport, ExtractionProblem  # type: ignore[import-not-found,unused-ignore]

from ._error import Error
from ._image import Image

#: Handlers of unblob whose chunks floatgate extracts.
HANDLERS = (
    ubi.UBIHandler,
    ubi.UBIFSHandler,
    jffs2.JFFS2OldHandler,
    jffs2.JFFS2NewHandler,
    squashfs.SquashFSv4LEHandler,
    cramfs.CramFSHandler,
    romfs.RomFSFSHandler,
    erofs.EROFSHandler,
    extfs.EXTHandler,
    fat.FATHandler,
    yaffs.YAFFSHandler,
)


class FloatgateExtractor(Extractor):  # type: ignore[misc,unused-ignore]
    """Extraction of the files of an image, in the process of unblob and without other programs.

    Parameters
    ----------
    other : Extractor, optional
        The extractor of unblob, for chunks that floatgate cannot read.
    """

    def __init__(self, other: Optional[Any] = None) -> None:
        self.other = other

    def extract(self, inpath: Path, outdir: Path) -> Any:
        """Extract the files of the chunk; what was not restored bit for bit is reported."""
        # The sandbox of unblob lets its threads write below the output only.
        before = tempfile.tempdir, os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = tempfile.tempdir = str(outdir.parent)
        try:
            extracted = Image(inpath).extract(outdir, owner=False)
        except Error as error:
            return self._fall_back(inpath, outdir, error)
        finally:
            tempfile.tempdir = before[0]
            if before[1] is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before[1]
        problems: list[Any] = [
            ExtractionProblem(problem=row["what"], resolution="The rest was extracted.", path=row["path"])
            for row in extracted.rows
        ]
        return ExtractResult(reports=problems)

    def _fall_back(self, inpath: Path, outdir: Path, error: Error) -> Any:
        failed = ExtractCommandFailedReport(command="floatgate", stdout=b"", stderr=str(error).encode(), exit_code=1)
        if self.other is None:
            raise ExtractError(failed) from error
        shutil.rmtree(outdir, ignore_errors=True)
        outdir.mkdir(parents=True)
        try:
            return self.other.extract(inpath, outdir)
        except ExtractError as second:
            raise ExtractError(failed, *second.reports) from error


def _doc(name: str, description: str, url: str) -> Any:
    return HandlerDoc(
        name=name,
        description=description,
        handler_type=HandlerType.FILESYSTEM,
        vendor=None,
        references=[Reference(title=f"{name} documentation", url=url)],
        limitations=[],
    )


class LittlefsHandler(Handler):  # type: ignore[misc,type-arg,unused-ignore]
    """LittleFS of version 2, of which unblob has no handler."""

    NAME = "littlefs"
    PATTERNS = [HexString("6c 69 74 74 6c 65 66 73  // littlefs")]
    PATTERN_MATCH_OFFSET = -8
    EXTRACTOR = FloatgateExtractor()
    DOC = _doc("LittleFS", "Filesystem of microcontrollers, version 2.", "https://github.com/littlefs-project/littlefs")

    def calculate_chunk(self, file: Any, start_offset: int) -> Optional[Any]:
        """Return the chunk of the size in the superblock."""
        head = file[start_offset : start_offset + 32]
        if len(head) < 32:
            return None
        version, block, blocks = struct.unpack_from("<III", head, 20)
        # The second block of the pair has the same name, and all blocks are whole sectors of 128 bytes or more.
        if version >> 16 != 2 or block < 128 or block % 128 or blocks < 2:
            return None
        return ValidChunk(start_offset=start_offset, end_offset=start_offset + block * blocks)


class F2fsHandler(Handler):  # type: ignore[misc,type-arg,unused-ignore]
    """F2FS, of which unblob has no handler."""

    NAME = "f2fs"
    PATTERNS = [HexString("10 20 f5 f2 01 00")]
    PATTERN_MATCH_OFFSET = -1024
    EXTRACTOR = FloatgateExtractor()
    DOC = _doc("F2FS", "Filesystem of cards and eMMC.", "https://docs.kernel.org/filesystems/f2fs.html")

    def calculate_chunk(self, file: Any, start_offset: int) -> Optional[Any]:
        """Return the chunk of the size in the superblock."""
        head = file[start_offset + 1024 : start_offset + 1024 + 44]
        if len(head) < 44:
            return None
        (log,) = struct.unpack_from("<I", head, 16)
        (blocks,) = struct.unpack_from("<Q", head, 36)
        if log not in (12, 14) or not blocks:
            return None
        return ValidChunk(start_offset=start_offset, end_offset=start_offset + (blocks << log))


class ExfatHandler(Handler):  # type: ignore[misc,type-arg,unused-ignore]
    """ExFAT, of which unblob has no handler."""

    NAME = "exfat"
    PATTERNS = [HexString("45 58 46 41 54 20 20 20 00 00 00 00 00 00  // EXFAT")]
    PATTERN_MATCH_OFFSET = -3
    EXTRACTOR = FloatgateExtractor()
    DOC = _doc("exFAT", "Filesystem of SD cards.", "https://learn.microsoft.com/en-us/windows/win32/fileio/exfat-specification")

    def calculate_chunk(self, file: Any, start_offset: int) -> Optional[Any]:
        """Return the chunk of the size in the boot sector."""
        head = file[start_offset : start_offset + 512]
        if len(head) < 512:
            return None
        (sectors,) = struct.unpack_from("<Q", head, 72)
        shift = head[108]
        if not 9 <= shift <= 12 or not sectors:
            return None
        return ValidChunk(start_offset=start_offset, end_offset=start_offset + (sectors << shift))


class SpiffsHandler(Handler):  # type: ignore[misc,type-arg,unused-ignore]
    """SPIFFS, of which unblob has no handler. Its magic number has two bytes, so only the start of a file is looked at."""

    NAME = "spiffs"
    PATTERNS = [Regex(r"^[\x00-\xff]{4}")]
    EXTRACTOR = FloatgateExtractor()
    DOC = _doc("SPIFFS", "Filesystem of microcontrollers on NOR flash.", "https://github.com/pellepl/spiffs")

    #: Lower half of the magic number, without the page size and the number of the block.
    MAGIC = 0x0529
    #: Least number of blocks whose magic numbers must be right.
    LEAST_BLOCKS = 4

    def calculate_chunk(self, file: Any, start_offset: int) -> Optional[Any]:
        """Return the chunk of the blocks whose magic numbers count down to 1."""
        for block in (1 << log for log in range(12, 19)):
            for page in (1 << log for log in range(7, 13)):
                blocks = self._blocks(file, start_offset, page, block)
                if blocks:
                    return ValidChunk(start_offset=start_offset, end_offset=start_offset + blocks * block)
        return None

    def _blocks(self, file: Any, start: int, page: int, block: int) -> int:
        # Two bytes for each page of the block, in whole pages; the magic number is in front of the erase counter.
        table = -(-(block // page * 2) // page) * page
        if table >= block or (block - table) // page * 2 > table - 4:
            return 0

        def number(index: int) -> int:
            at = start + index * block + table - 4
            magic = bytes(file[at : at + 2])
            return -1 if len(magic) < 2 else int.from_bytes(magic, "little") ^ self.MAGIC ^ page

        blocks = number(0)
        if not self.LEAST_BLOCKS <= blocks < 0x4000 or start + blocks * block > file.size():
            return 0
        return blocks if all(number(index) == blocks - index for index in range(blocks)) else 0


#: Handlers of filesystems that unblob does not find.
OWN_HANDLERS = (LittlefsHandler, F2fsHandler, ExfatHandler, SpiffsHandler)


@hookimpl  # type: ignore[misc,untyped-decorator,unused-ignore]
def unblob_register_handlers() -> list[Any]:
    """Have floatgate extract what the handlers of unblob find, and add handlers of filesystems that unblob does not find."""
    handler: Any
    for handler in HANDLERS:
        if not isinstance(handler.EXTRACTOR, FloatgateExtractor):
            handler.EXTRACTOR = FloatgateExtractor(handler.EXTRACTOR)
    return list(OWN_HANDLERS)
