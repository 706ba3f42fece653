"""Files in images and dumps of UBI, UBIFS and JFFS2."""

from __future__ import annotations

import io
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Optional, Union

from . import _floatgate as native
from ._arguments import Path, fspath, image_path
from ._error import ArgumentError, MissingFile
from ._result import Result, row
from ._types import Compression, ImageFormat

#: Master key of encrypted files: its bytes, or a file with them.
Key = Union[bytes, Path]

#: Maximum number of symbolic links in a path, as in Linux (MAXSYMLINKS).
LINKS_MAX = 40


@dataclass(frozen=True)
class FileInfo:
    """A file in an image.

    Attributes
    ----------
    path : str
        Path from the root, without a leading slash; bytes that are not UTF-8 are decoded as by `os.fsdecode`.
    type : str
        ``file``, ``directory``, ``symlink``, ``block-device``, ``character-device``, ``fifo``, ``socket``.
    size : int
        Bytes.
    permissions : int
        Permission bits.
    mtime, atime, ctime : str
        Seconds since 1970, with nanoseconds as decimals.
    target : str or None
        Target of a symbolic link.
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


_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


def _decoded(shown: str) -> str:
    """Decode a name as the library prints it, with control characters, backslashes and bytes that are not UTF-8 escaped."""
    if "\\" not in shown:
        return shown
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), shown.encode()))


def _file(entry: dict[str, Any]) -> FileInfo:
    target = entry.get("target")
    entry["path"] = _decoded(entry["path"])
    entry["target"] = None if target is None else _decoded(target)
    return row(FileInfo, entry)


class ImageInfo(Result[dict[str, Any]]):
    """Contents of a file: one row per image, as in ``floatgate image info --json``."""

    def _columns(self) -> dict[str, list[Any]]:
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        return {name: [row.get(name) for row in self.rows] for name in names}


class Findings(ImageInfo):
    """Result of `Image.check`: one row per finding."""

    @property
    def outcome(self) -> str:
        """``clean``, ``recoverable`` (the next mount repairs it) or ``damaged``."""
        return str(self._data["outcome"])


class Extracted(ImageInfo):
    """Result of `Image.extract`: one row per difference that could not be restored."""

    @property
    def entries(self) -> int:
        """Number of files and directories."""
        return int(self._data["entries"])

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return int(self._data["bytes"])


class Built(ImageInfo):
    """Result of `Image.build`: one row per property that the image does not contain exactly."""

    @property
    def image_bytes(self) -> int:
        """Bytes of the image."""
        return int(self._data["image_bytes"])


class Edit:
    """Changes of the files in an image. At the end of the ``with`` block, all of them are made or none. See `Image.edit`.

    Paths are in the image, relative to its root.
    """

    def __init__(self, image: Image, options: dict[str, Any]) -> None:
        self._image = image
        self._options = options
        self._changes: list[dict[str, Any]] = []
        self._is_open = False
        #: Result after the block: one row per property that could not be kept.
        self.result: Optional[ImageInfo] = None

    def _add(self, what: str, path: Union[str, bytes], other: Union[str, bytes] = b"", recursive: bool = False) -> None:
        if not self._is_open:
            raise ArgumentError("changes are made in a `with` block, and at its end", "write `with image.edit() as edit:`")
        change = {"what": what, "path": image_path("path", path), "other": os.fsencode(other), "recursive": recursive}
        self._changes.append(change)

    def put(self, source: Path, path: Union[str, bytes]) -> None:
        """Copy a file or directory of the host to `path`, as ``cp -a`` does.

        Raises
        ------
        ArgumentError
            The ``with`` block has ended.

        Examples
        --------
        >>> with Image("rootfs.ubi").edit() as edit:  # doctest: +SKIP
        ...     edit.put("hostname", "/etc/hostname")
        """
        self._add("put", path, fspath("source", source))

    def remove(self, path: Union[str, bytes], *, recursive: bool = False) -> None:
        """Remove a file; with `recursive`, also a directory with all its contents.

        Raises
        ------
        ArgumentError
            The ``with`` block has ended.

        Examples
        --------
        >>> with Image("rootfs.ubi").edit() as edit:  # doctest: +SKIP
        ...     edit.remove("/var/cache", recursive=True)
        """
        self._add("remove", path, recursive=recursive)

    def mkdir(self, path: Union[str, bytes], *, parents: bool = False) -> None:
        """Make a directory; with `parents`, also its missing parents, and an existing directory is not an error.

        Raises
        ------
        ArgumentError
            The ``with`` block has ended.

        Examples
        --------
        >>> with Image("rootfs.ubi").edit() as edit:  # doctest: +SKIP
        ...     edit.mkdir("/srv/www", parents=True)
        """
        self._add("mkdir", path, recursive=parents)

    def rename(self, path: Union[str, bytes], new: Union[str, bytes]) -> None:
        """Rename a file; an existing file of the new name is replaced.

        Raises
        ------
        ArgumentError
            The ``with`` block has ended.

        Examples
        --------
        >>> with Image("rootfs.ubi").edit() as edit:  # doctest: +SKIP
        ...     edit.rename("/etc/motd.new", "/etc/motd")
        """
        self._add("rename", path, image_path("new", new))

    def symlink(self, target: Union[str, bytes], path: Union[str, bytes]) -> None:
        """Make a symbolic link at `path` to `target`.

        Raises
        ------
        ArgumentError
            The ``with`` block has ended.

        Examples
        --------
        >>> with Image("rootfs.ubi").edit() as edit:  # doctest: +SKIP
        ...     edit.symlink("busybox", "/bin/sh")
        """
        self._add("symlink", path, image_path("target", target))

    def chmod(self, path: Union[str, bytes], mode: Union[str, int], *, recursive: bool = False) -> None:
        """Set permissions: ``0o644``, or in the notation of chmod, ``"u+x,go-w"``.

        Raises
        ------
        TypeError
            The mode is neither an int nor a str.

        Examples
        --------
        >>> with Image("rootfs.ubi").edit() as edit:  # doctest: +SKIP
        ...     edit.chmod("/etc/shadow", 0o600)
        """
        if not isinstance(mode, (str, int)):
            raise TypeError(f"mode: expected an int or a str, got {mode!r}")
        self._add("chmod", path, mode if isinstance(mode, str) else f"{mode:o}", recursive)

    def chown(self, path: Union[str, bytes], uid: int, gid: int, *, recursive: bool = False) -> None:
        """Set owner and group.

        Raises
        ------
        ArgumentError
            The ``with`` block has ended.

        Examples
        --------
        >>> with Image("rootfs.ubi").edit() as edit:  # doctest: +SKIP
        ...     edit.chown("/srv", 33, 33, recursive=True)
        """
        self._add("chown", path, f"{uid}:{gid}", recursive)

    def __enter__(self) -> Edit:
        self._is_open = True
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._is_open = False
        # Without changes nothing is written, unless the image must be recovered or written to another file.
        if kind is None and (self._changes or self._options["recover"] or self._options["output"] is not None):
            self.result = self._image._change(self._options, self._changes)


def _keys(key: Union[Key, Sequence[Key], None]) -> list[bytes]:
    """Bytes of the master keys of encrypted files."""
    if key is None:
        return []
    if isinstance(key, (str, bytes, bytearray, os.PathLike)):
        return [_key(key)]
    return [_key(one) for one in key]


def _key(key: Key) -> bytes:
    if isinstance(key, (bytes, bytearray)):
        return bytes(key)
    path = fspath("key", key)
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        raise MissingFile(f"key: {path}: {error.strerror}", "give the bytes of the master key, or a file with them") from error


class _Reader(io.RawIOBase):
    """A file of an image, which is read on demand."""

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
            raise ArgumentError(f"offset: a seek to {start + offset}", "give a position that is not before the beginning")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._image.read(self._inode, self._at, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class Image:
    """An image or a dump of any filesystem that floatgate reads, with OOB or without. Only `edit` changes it.

    Parameters
    ----------
    path : str or path
        File with the image or dump.
    volume : str, optional
        The UBI volume, by name or number, if several volumes contain a UBIFS.
    offset : int, optional
        Offset of the image in bytes, if the file contains several images.
    peb_size : int, optional
        Size of an eraseblock of the flash in bytes, which a small JFFS2 does not reveal.
    page_size, oob_size, block_pages : int, optional
        Sizes of a NAND dump with OOB, if they are not detected: data and OOB bytes of a page, and pages of a block.
    key : bytes, str, path or a sequence of them, optional
        Master keys of files that Linux has encrypted (fscrypt) in UBIFS, ext4 or F2FS: 16 to 64 bytes, or a file with them. Names and
        contents are decrypted where they are read; `edit` does not use the keys.

    Raises
    ------
    ArgumentError
        The file has no image, or a key has a wrong length.
    MissingFile
        The image or the file of a key does not exist.

    Examples
    --------
    >>> image = Image("rootfs.ubi")  # doctest: +SKIP
    >>> [file.name for file in image.ls("/etc")]  # doctest: +SKIP
    >>> Image("card.ext4", key=bytes(64)).open("/secret/text").read()  # doctest: +SKIP
    """

    def __init__(
        self,
        path: Path,
        *,
        volume: Optional[str] = None,
        offset: Optional[int] = None,
        peb_size: Optional[int] = None,
        page_size: Optional[int] = None,
        oob_size: Optional[int] = None,
        block_pages: Optional[int] = None,
        key: Union[Key, Sequence[Key], None] = None,
    ) -> None:
        self.path = fspath("path", path)
        self._which = {
            "volume": volume,
            "offset": offset,
            "peb_size": peb_size,
            "page_size": page_size,
            "oob_size": oob_size,
            "block_pages": block_pages,
            "keys": _keys(key),
        }
        self._native = native.NativeImage(self.path, self._which)

    @classmethod
    def build(
        cls,
        source: Path,
        output: Path,
        *,
        format: ImageFormat = "ubi",
        part: Optional[Path] = None,
        setup: Optional[Path] = None,
        sizes: Optional[tuple[int, int]] = None,
        compress: Optional[Compression] = None,
        volume: str = "rootfs",
        autoresize: bool = False,
        owner: Optional[tuple[int, int]] = None,
        latest: Optional[int] = None,
        size: Optional[int] = None,
        oob_size: Optional[int] = None,
        tags_at: int = 2,
        big_endian: bool = False,
    ) -> Built:
        """Build an image (``floatgate image build``). The same input gives the same bytes.

        Parameters
        ----------
        source : str or path
            A directory or a tar.
        output : str or path
            File for the image.
        format : {"ubi", "ubifs", "jffs2", "yaffs2", "littlefs", "spiffs"}
            Container of the filesystem, or the filesystem.
        part, setup : str or path, optional
            Chip or board for which the image is made.
        sizes : tuple of int, optional
            Bytes of a page and of an eraseblock, instead of either; 256 and 4096 for a LittleFS or SPIFFS.
        compress : {"lzo", "zlib", "zstd", "none"}, optional
            Compression of data; lzo by default, zlib for a JFFS2.
        volume : str
            Name of the UBI volume.
        autoresize : bool
            Give the volume all free space when it is first attached.
        owner : tuple of int, optional
            User and group of all files.
        latest : int, optional
            Latest time that a file gets, seconds since 1970.
        size : int, optional
            Bytes of the image: of the partition that a LittleFS or SPIFFS fills, or of a JFFS2 that is padded.
        oob_size : int, optional
            OOB bytes of a page of a YAFFS2; 0 puts the tags at the end of the page; 1/32 of the page by default.
        tags_at : int
            Byte of the OOB at which the tags of a YAFFS2 begin.
        big_endian : bool
            Store the numbers of a JFFS2 or YAFFS2 with the most significant byte first.

        Returns
        -------
        Built
            One row per property that the image does not contain exactly.

        Raises
        ------
        ArgumentError
            The sizes of the flash are not given, or the files do not fit.
        MissingFile
            The source does not exist.

        Examples
        --------
        >>> Image.build("rootfs/", "rootfs.ubi", part="mx30lf2g18ac")  # doctest: +SKIP

        Filesystems of microcontrollers and of older Android devices:

        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> (folder / "root").mkdir()
        >>> (folder / "root" / "hostname").write_bytes(b"board")
        5
        >>> for format, options in {
        ...     "littlefs": {"size": 65536},
        ...     "spiffs": {"size": 65536},
        ...     "yaffs2": {"sizes": (2048, 131072)},
        ... }.items():
        ...     path = folder / format
        ...     built = Image.build(folder / "root", path, format=format, owner=None, **options)
        ...     print(format, built.image_bytes, Image(path).open("/hostname").read())
        littlefs 65536 b'board'
        spiffs 65536 b'board'
        yaffs2 ... b'board'
        """
        image = {
            "format": format,
            "part": None if part is None else fspath("part", part),
            "setup": None if setup is None else fspath("setup", setup),
            "sizes": sizes,
            "compress": compress,
            "volume": volume,
            "autoresize": autoresize,
            "owner": owner,
            "latest": latest,
            "size": size,
            "oob_size": oob_size,
            "tags_at": tags_at,
            "big_endian": big_endian,
        }
        data = json.loads(native.build_image(fspath("source", source), fspath("output", output), image))
        return Built(data, data["losses"])

    def edit(self, output: Optional[Path] = None, *, recover: bool = False, grow: bool = False) -> Edit:
        """Change files in the image. At the end of the ``with`` block, all changes are made or none.

        Parameters
        ----------
        output : str or path, optional
            File for the changed image; this image is then not changed.
        recover : bool
            Recover a filesystem that was not unmounted. By default such an image is refused.
        grow : bool
            Allow the volume to grow as needed.

        Returns
        -------
        Edit
            The changes, for a ``with`` block.

        Raises
        ------
        Error
            At the end of the block: a change is impossible, so none is made.

        Examples
        --------
        >>> with Image("rootfs.ubi").edit() as edit:  # doctest: +SKIP
        ...     edit.put("hostname", "/etc/hostname")
        """
        return Edit(self, {"output": None if output is None else fspath("output", output), "recover": recover, "grow": grow})

    def _change(self, options: dict[str, Any], changes: list[dict[str, Any]]) -> ImageInfo:
        image = {"path": self.path, "which": self._which, "time_ns": time.time_ns(), **options}
        # An image with open readers is not changed, and the previously mounted filesystem is no longer valid.
        del self._native
        try:
            data = json.loads(native.edit_image(image, changes))
        finally:
            self._native = native.NativeImage(self.path, self._which)
        return ImageInfo(data, data["losses"])

    def __repr__(self) -> str:
        return f"Image({self.path!r})"

    def info(self) -> ImageInfo:
        """Return the contents of the file, and the options that make a similar image.

        Returns
        -------
        ImageInfo
            A row for each image.

        Raises
        ------
        ArgumentError
            The file contains no known image.

        Examples
        --------
        >>> Image("rootfs.ubi").info().rows[0]["kind"]  # doctest: +SKIP
        """
        data = json.loads(self._native.info())
        return ImageInfo(data, data["images"])

    def check(self) -> Findings:
        """Check the image, without changing the file.

        Returns
        -------
        Findings
            A row for each finding.

        Raises
        ------
        ArgumentError
            The file contains no image that can be checked.

        Examples
        --------
        >>> Image("rootfs.ubi").check().outcome  # doctest: +SKIP
        'clean'
        """
        data = json.loads(self._native.check())
        return Findings(data, data["findings"])

    def ls(self, path: Union[str, bytes] = "/", *, recursive: bool = False) -> list[FileInfo]:
        """Return the files of a directory, or the file itself, by name.

        Returns
        -------
        list of FileInfo
            Files of the directory, or the one file.

        Raises
        ------
        MissingFile
            The path does not exist in the image.

        Examples
        --------
        >>> [file.name for file in Image("rootfs.ubi").ls("/etc")]  # doctest: +SKIP
        """
        return [_file(entry) for entry in json.loads(self._native.ls(image_path("path", path), recursive))]

    def stat(self, path: Union[str, bytes]) -> FileInfo:
        """Return the attributes of a file; symbolic links are not followed.

        Returns
        -------
        FileInfo
            Attributes of the file.

        Raises
        ------
        MissingFile
            The path does not exist in the image.

        Examples
        --------
        >>> Image("rootfs.ubi").stat("/etc/passwd").size  # doctest: +SKIP
        """
        return _file(json.loads(self._native.stat(image_path("path", path))))

    def resolve(self, path: str) -> str:
        """Return the path with all symbolic links resolved.

        Returns
        -------
        str
            Path of the file or directory itself.

        Raises
        ------
        MissingFile
            The path does not exist in the image.
        OSError
            The path contains too many symbolic links.

        Examples
        --------
        >>> Image("rootfs.ubi").resolve("/bin/sh")  # doctest: +SKIP
        '/bin/busybox'
        """
        left, done, links = fspath("path", path).split("/")[::-1], "", 0
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
        """Open a file of the image as a binary file object. In a path of type str, symbolic links are followed.

        Returns
        -------
        io.BufferedReader
            File object, which can seek.

        Raises
        ------
        MissingFile
            The path does not exist in the image.
        IsADirectoryError
            The path is a directory.

        Examples
        --------
        >>> Image("rootfs.ubi").open("/etc/hostname").read()  # doctest: +SKIP
        """
        found = self.stat(path if isinstance(path, bytes) else self.resolve(path))
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
            Set owners, if the user is permitted to do so.

        Returns
        -------
        Extracted
            A row for each difference that could not be restored.

        Raises
        ------
        ArgumentError
            The target exists, or nothing can be extracted.

        Examples
        --------
        >>> Image("dump.ubi").extract("rootfs.tar").entries  # doctest: +SKIP
        """
        data = json.loads(self._native.extract(fspath("target", target), owner))
        return Extracted(data, data["losses"])
