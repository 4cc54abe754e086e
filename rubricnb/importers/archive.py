"""A zip archive read with limits: members one at a time, none of more than a set size."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from ..errors import FormatError

MEMBER = 256 << 20
MEMBERS = 200_000
TOTAL = 16 << 30


class Archive:
    """The members of a zip file, read as text.

    A member counts by the bytes that really come out, not by the size that the archive states, so
    that a bomb stops at the limit. Nothing is extracted to disk.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._left = TOTAL
        try:
            self._zip = zipfile.ZipFile(path)
            self._names = self._zip.namelist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as e:
            raise FormatError(f"{path}: want a zip archive that can be read; got {e}") from e
        if len(self._names) > MEMBERS:
            raise FormatError(
                f"{path}: want at most {MEMBERS} members; got {len(self._names)} in the archive"
            )

    def names(self) -> list[str]:
        """The members' names, in the order of the archive."""
        return list(dict.fromkeys(self._names))

    def text(self, name: str) -> str:
        """Return one member as text.

        Raises:
            FormatError: for a member that is too large, encrypted, damaged, or compressed in a way
                that Python cannot read.
        """
        limit = min(MEMBER, self._left)
        try:
            with self._zip.open(name) as f:
                data = f.read(limit + 1)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, KeyError,
                RuntimeError, NotImplementedError) as e:  # fmt: skip
            raise FormatError(f"{self.path}, {name}: want a readable member; got {e}") from e
        if len(data) > limit:
            raise FormatError(
                f"{self.path}, {name}: want at most {limit >> 20} MB in a member; got more"
            )
        self._left -= len(data)
        return data.decode("utf-8", "surrogateescape")
