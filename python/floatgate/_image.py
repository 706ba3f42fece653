"""Files in images and dumps of UBI, UBIFS and JFFS2."""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _floatgate as native
from ._arguments import Path
from ._result import Result, row

#: Symbolic links that a path may lead through, as in Linux (MAXSYMLINKS).
LINKS_MAX = 40


@dataclass(frozen=True)
class FileInfo:
    """A file in an image.

    Attributes
    ----------
    path : str
        Path from the root, without a slash before it; bytes that are not UTF-8 as ``\\xNN``.
    type : str
        ``file``, ``directory``, ``symlink``, ``block-device``, ``character-device``, ``fifo``, ``socket``.
    size : int
        Bytes.
    permissions : int
        Permission bits.
    mtime, atime, ctime : str
        Seconds since 1970, with nanoseconds as decimals.
    target : str or None
        Where a symbolic link leads.
    """

    path: str
    inode: int
    type: str
    permissions: int
    links: int
    uid: int
    gid: int
    size: int
    mtime: str
    atime: str
    ctime: str
    target: Optional[str]
    xattrs: int
    encrypted: bool

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.path.rpartition("/")[2]


class ImageInfo(Result[dict[str, Any]]):
    """What is in a file: one row an image, as ``floatgate image info --json`` has them."""

    def _columns(self) -> dict[str, list[Any]]:
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        return {name: [row.get(name) for row in self.rows] for name in names}


class Findings(ImageInfo):
    """Result of `Image.check`: one row a finding."""

    @property
    def outcome(self) -> str:
        """``clean``, ``recoverable`` (the next mount makes it good) or ``damaged``."""
        return str(self._data["outcome"])


class Extracted(ImageInfo):
    """Result of `Image.extract`: one row a thing that was not restored bit for bit."""

    @property
    def entries(self) -> int:
        """Number of files and directories."""
        return int(self._data["entries"])

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return int(self._data["bytes"])


class _Reader(io.RawIOBase):
    """A file of an image, read from the image when it is needed."""

    def __init__(self, image: native.NativeImage, inode: int, size: int) -> None:
        self._image = image
        self._inode = inode
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"seek to {start + offset}, before the beginning")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._image.read(self._inode, self._at, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class Image:
    """An image or a dump: UBI, UBIFS or JFFS2, with OOB or without. It is only read.

    Parameters
    ----------
    path : str or path
        The file.
    volume : str, optional
        The UBI volume, by name or number, where several hold a UBIFS.
    offset : int, optional
        Byte at which the image begins, where the file holds several.

    Examples
    --------
    >>> image = Image("rootfs.ubi")  # doctest: +SKIP
    >>> [file.name for file in image.ls("/etc")]  # doctest: +SKIP
    """

    def __init__(self, path: Path, *, volume: Optional[str] = None, offset: Optional[int] = None) -> None:
        self.path = os.fspath(path)
        self._native = native.NativeImage(self.path, volume, offset)

    def __repr__(self) -> str:
        return f"Image({self.path!r})"

    def info(self) -> ImageInfo:
        """What is in the file, and how to make an image like it."""
        data = json.loads(self._native.info())
        return ImageInfo(data, data["images"])

    def check(self) -> Findings:
        """What is wrong with it; the file is not changed."""
        data = json.loads(self._native.check())
        return Findings(data, data["findings"])

    def ls(self, path: Union[str, bytes] = "/", *, recursive: bool = False) -> list[FileInfo]:
        """Files of a directory, or the file itself, by name."""
        return [row(FileInfo, entry) for entry in json.loads(self._native.ls(os.fsencode(path), recursive))]

    def stat(self, path: Union[str, bytes]) -> FileInfo:
        """Attributes of a file; symbolic links are not followed."""
        return row(FileInfo, json.loads(self._native.stat(os.fsencode(path))))

    def resolve(self, path: str) -> str:
        """The path without symbolic links in it."""
        left, done, links = path.split("/")[::-1], "", 0
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            target = self.stat(f"{done}/{part}").target
            if target is None:
                done = f"{done}/{part}"
                continue
            links += 1
            if links > LINKS_MAX:
                raise OSError(40, "Too many levels of symbolic links", path)
            done = "" if target.startswith("/") else done
            left.extend(target.split("/")[::-1])
        return done or "/"

    def open(self, path: Union[str, bytes]) -> io.BufferedReader:
        """A file of the image as a binary file object. In a path of type str symbolic links are followed."""
        found = self.stat(self.resolve(path) if isinstance(path, str) else path)
        if found.type == "directory":
            raise IsADirectoryError(21, "Is a directory", path)
        return io.BufferedReader(_Reader(self._native, found.inode, found.size), 1 << 16)

    def extract(self, target: Path, *, owner: bool = True) -> Extracted:
        """Extract everything into a new or an empty directory, or into a file that ends in ``.tar``.

        Parameters
        ----------
        target : str or path
            Directory or tar.
        owner : bool
            Set owners, as far as the user may.
        """
        data = json.loads(self._native.extract(os.fspath(target), owner))
        return Extracted(data, data["losses"])
