"""The exceptions of this package."""

from __future__ import annotations

import errno
from typing import Optional


class Error(Exception):
    """Base of all errors of this package.

    Attributes
    ----------
    message : str
        Description of the error in one sentence.
    help : str or None
        Advice, as the command prints it after ``help:``.
    """

    message: str
    help: Optional[str]

    def __init__(self, message: str, help: Optional[str] = None) -> None:
        super().__init__(message, help)
        self.message = message
        self.help = help

    def __str__(self) -> str:
        return self.message if self.help is None else f"{self.message}\nhelp: {self.help}"


class ArgumentError(Error, ValueError):
    """A setup, an image or an argument is wrong. It is a ``ValueError``, too."""


class MissingFile(Error, FileNotFoundError):
    """A setup, an image or another file that an argument names does not exist."""

    def __init__(self, message: str, help: Optional[str] = None) -> None:
        super().__init__(message, help)
        self.errno, self.strerror = errno.ENOENT, message


class FlashError(Error):
    """A simulated flash or card failed or refused an operation.

    Attributes
    ----------
    kind : str
        Reason: ``"uncorrectable"``, ``"program failed"``, ``"erase failed"``, ``"bad block"``, ``"not erased"``,
        ``"write protected"``, ``"timeout"``, ``"worn out"``, ``"unsupported"``, ``"refused"``, ``"no answer"`` or ``"power lost"``.
    """

    kind: str

    def __init__(self, message: str, help: Optional[str] = None, kind: str = "refused") -> None:
        super().__init__(message, help)
        self.args = (message, help, kind)
        self.kind = kind


class PowerLost(FlashError):
    """Power was lost in this operation or before it. ``restart()`` switches power on again."""

    def __init__(self, message: str, help: Optional[str] = None, kind: str = "power lost") -> None:
        super().__init__(message, help, kind)
