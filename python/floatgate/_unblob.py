"""UBI, UBIFS and JFFS2 for unblob: its own handlers find the chunks, floatgate extracts them (entry point ``unblob_v1``)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from unblob.handlers.filesystem import jffs2, ubi  # type: ignore[import-not-found,unused-ignore]
from unblob.models import Extractor, ExtractError, ExtractResult  # type: ignore[import-not-found,unused-ignore]
from unblob.plugins import hookimpl  # type: ignore[import-not-found,unused-ignore]
from unblob.report import ExtractCommandFailedReport, ExtractionProblem  # type: ignore[import-not-found,unused-ignore]

from ._error import Error
from ._image import Image

#: Handlers of unblob whose chunks floatgate extracts.
HANDLERS = (ubi.UBIHandler, ubi.UBIFSHandler, jffs2.JFFS2OldHandler, jffs2.JFFS2NewHandler)


class FloatgateExtractor(Extractor):  # type: ignore[misc,unused-ignore]
    """Extraction of the files of an image, in the process of unblob and without other programs."""

    def extract(self, inpath: Path, outdir: Path) -> Any:
        """Extract the files of the chunk; what was not restored bit for bit is reported."""
        # The sandbox of unblob lets its threads write below the output only.
        before = tempfile.tempdir, os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = tempfile.tempdir = str(outdir.parent)
        try:
            extracted = Image(inpath).extract(outdir, owner=False)
        except Error as error:
            failed = ExtractCommandFailedReport(command="floatgate", stdout=b"", stderr=str(error).encode(), exit_code=1)
            raise ExtractError(failed) from error
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


@hookimpl  # type: ignore[misc,untyped-decorator,unused-ignore]
def unblob_register_handlers() -> list[Any]:
    """Have floatgate extract what the handlers of unblob find. No handler is added: the first one that finds a chunk keeps it."""
    handler: Any
    for handler in HANDLERS:
        handler.EXTRACTOR = FloatgateExtractor()
    return []
