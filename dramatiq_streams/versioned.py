"""SQL rows that only a newer fencing token, or the same one again, may change.

The database decides, in the statement that writes: no lock is held and nothing is read before.
Handing out tokens that grow is another's business; connections and transactions are the caller's.
"""

from __future__ import annotations

import math
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .errors import InvalidOption

#: The largest value of a BIGINT, and of an integer in SQLite.
LARGEST_TOKEN = 2**63 - 1

#: PostgreSQL cuts longer names short and goes on.
_LONGEST_NAME_BYTES = 63


@dataclass(frozen=True, slots=True)
class VersionedTable:
    """A table of which each row keeps the fencing token that it was last written with.

    Names are quoted, so they are written as the database has them: PostgreSQL's are lower case
    unless they were quoted when they were created.

    Args:
        name: The table's name.
        keys: The columns that tell one row from another: a primary key or a unique index.
        values: The columns that are written beside these.
        version: The column with the token: `BIGINT`, in SQLite `INTEGER`. NULL is older than all.
        schema: Where the table is, if the connection does not find it by its name alone.

    Raises:
        InvalidOption: A name is not possible or used twice, or there is no key.
    """

    name: str
    keys: Sequence[str]
    values: Sequence[str]
    version: str = "version"
    schema: str | None = None

    def __post_init__(self) -> None:
        for option in ("keys", "values"):
            names = getattr(self, option)
            if isinstance(names, str) or not isinstance(names, Sequence):
                raise InvalidOption.of(option, names, "a sequence of names of columns")
        if not self.keys:
            raise InvalidOption.of("keys", self.keys, "at least one name of a column")
        for name in [self.name, *self._columns, *([] if self.schema is None else [self.schema])]:
            _check_name(name)
        if twice := {name for name in self._columns if self._columns.count(name) > 1}:
            raise InvalidOption(f"Column {min(twice)!r} of table {self.name!r} is named twice.")

    def write(self, connection: Any, row: Mapping[str, Any], *, token: int) -> bool:
        """Insert *row*, or replace the one with its keys, unless that has a newer token.

        Neither committed nor rolled back here. A row that another transaction is writing is waited
        for; then what that has committed counts.

        Args:
            connection: A `sqlite3.Connection` or a `psycopg.Connection`.
            row: A value for each key and value column; in a key column neither None nor NaN, which
                no database takes for the same as itself.
            token: That under which the caller works, from 1 to 2**63 - 1.

        Returns:
            Whether it was written; False: somebody with a newer token has written it before.

        Raises:
            InvalidOption: The row lacks a column or has one too many, or it, the token or the
                connection is not possible.
        """
        self._check_row(row)
        if not isinstance(token, int) or isinstance(token, bool) or not 0 < token <= LARGEST_TOKEN:
            raise InvalidOption.of("token", token, "a whole number from 1 to 2**63 - 1")
        parameters = [*(row[column] for column in (*self.keys, *self.values)), token]
        cursor = self._executed(connection, parameters)
        try:
            return bool(cursor.rowcount == 1)
        finally:
            cursor.close()

    def statement(self, placeholder: str = "?") -> str:
        """The SQL that `write` executes, for keys, values and the token, in this order.

        Args:
            placeholder: `?` as in sqlite3, or `%s` as in psycopg.
        """

        def quoted(name: str) -> str:
            text = '"' + name.replace('"', '""') + '"'
            return text if placeholder == "?" else text.replace("%", "%%")

        place = [self.name] if self.schema is None else [self.schema, self.name]
        table = ".".join(map(quoted, place))
        columns = ", ".join(map(quoted, self._columns))
        placeholders = ", ".join([placeholder] * len(self._columns))
        replaced = map(quoted, (*self.values, self.version))
        changes = ", ".join(f"{name} = excluded.{name}" for name in replaced)
        version = quoted(self.version)
        return (
            f"INSERT INTO {table} AS held ({columns}) VALUES ({placeholders})"
            f" ON CONFLICT ({', '.join(map(quoted, self.keys))}) DO UPDATE SET {changes}"
            # One holder may write twice, or again when a reply was lost: its own token passes.
            f" WHERE COALESCE(held.{version}, 0) <= excluded.{version}"
        )

    def _executed(self, connection: Any, parameters: list[Any]) -> Any:
        """The cursor that has executed the statement."""
        if isinstance(connection, sqlite3.Connection):
            self._check_case()
            return connection.execute(self.statement("?"), parameters)
        psycopg = sys.modules.get("psycopg")  # Not imported for SQLite's sake.
        if psycopg is None or not isinstance(connection, psycopg.Connection):
            allowed = "a sqlite3.Connection or psycopg.Connection"
            raise InvalidOption.of("connection", connection, allowed)
        if connection.pgconn.pipeline_status:
            raise InvalidOption(
                "A pipeline does not say at once whether a row was written: end it."
            )
        raw = getattr(psycopg, "RawCursor", None)
        if raw is not None and issubclass(connection.cursor_factory, raw):
            # It would have parameters be called $1 and so on: one of the ordinary kind, then.
            return psycopg.Cursor(connection).execute(self.statement("%s"), parameters)
        return connection.execute(self.statement("%s"), parameters)

    @property
    def _columns(self) -> list[str]:
        return [*self.keys, *self.values, self.version]

    def _check_case(self) -> None:
        """SQLite takes `Version` for the same column as `version`, and would set it twice."""
        seen: dict[str, str] = {}
        for name in self._columns:
            other = seen.setdefault(name.lower() if name.isascii() else name, name)
            if other != name:
                raise InvalidOption(
                    f"Columns {other!r} and {name!r} of table {self.name!r} are one in SQLite."
                )

    def _check_row(self, row: Mapping[str, Any]) -> None:
        if not isinstance(row, Mapping):
            raise InvalidOption.of("row", row, "a mapping of columns to values, as a dict")
        wanted = {*self.keys, *self.values}
        if row.keys() == wanted:
            for column in self.keys:
                _check_key(column, row[column])
            return
        wrong = [f"{name!r} is missing" for name in sorted(wanted - row.keys())]
        wrong += [f"{name!r} is unknown" for name in sorted(row.keys() - wanted, key=str)]
        raise InvalidOption(
            f"A row of {self.name!r} has to have exactly {', '.join(sorted(wanted))}:"
            f" {', '.join(wrong)}."
        )


def _check_key(column: str, value: object) -> None:
    is_nan = (isinstance(value, float) and math.isnan(value)) or (
        isinstance(value, Decimal) and value.is_nan()
    )
    if value is None or is_nan:
        raise InvalidOption(
            f"A row cannot have {value!r} in its key column {column!r}: it would be another row"
            " each time, and no token would guard it."
        )


def _check_name(name: object) -> None:
    # Half a character, which UTF-8 does not have, is what "ignore" leaves out.
    encoded = name.encode(errors="ignore") if isinstance(name, str) else b""
    is_whole = encoded.decode() == name and b"\0" not in encoded
    if not is_whole or not 1 <= len(encoded) <= _LONGEST_NAME_BYTES:
        allowed = f"1 to {_LONGEST_NAME_BYTES} bytes in UTF-8, without a zero byte"
        raise InvalidOption(f"No table or column can be called {name!r}: a name has {allowed}.")
