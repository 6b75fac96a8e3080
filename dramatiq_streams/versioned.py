"""SQL rows that only a newer fencing token, or the same one again, may change.

The database decides, in the statement that writes: no lock is held and nothing is read before.
Handing out tokens that grow is another's business; connections and transactions are the caller's.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
            row: A value for each key and value column.
            token: That under which the caller works, from 1 to 2**63 - 1.

        Returns:
            Whether it was written; False: somebody with a newer token has written it before.

        Raises:
            InvalidOption: The row lacks a column or has one too many, or the token or the
                connection is not possible.
        """
        self._check_row(row)
        if not isinstance(token, int) or isinstance(token, bool) or not 0 < token <= LARGEST_TOKEN:
            raise InvalidOption.of("token", token, "a whole number from 1 to 2**63 - 1")
        parameters = [*(row[column] for column in (*self.keys, *self.values)), token]
        statement = self.statement(_placeholder(connection))
        cursor = connection.execute(statement, parameters)
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

    @property
    def _columns(self) -> list[str]:
        return [*self.keys, *self.values, self.version]

    def _check_row(self, row: Mapping[str, Any]) -> None:
        wanted = {*self.keys, *self.values}
        if row.keys() == wanted:
            return
        wrong = [f"{name!r} is missing" for name in sorted(wanted - row.keys())]
        wrong += [f"{name!r} is unknown" for name in sorted(row.keys() - wanted, key=str)]
        raise InvalidOption(
            f"A row of {self.name!r} has to have exactly {', '.join(sorted(wanted))}:"
            f" {', '.join(wrong)}."
        )


def _placeholder(connection: object) -> str:
    """How *connection* marks a parameter; psycopg is not imported for it."""
    if isinstance(connection, sqlite3.Connection):
        return "?"
    psycopg = sys.modules.get("psycopg")
    if psycopg is not None and isinstance(connection, psycopg.Connection):
        if connection.pgconn.pipeline_status:
            raise InvalidOption(
                "A pipeline does not say at once whether a row was written: end it."
            )
        return "%s"
    raise InvalidOption.of("connection", connection, "a sqlite3.Connection or psycopg.Connection")


def _check_name(name: object) -> None:
    length = len(name.encode("utf-8", "surrogatepass")) if isinstance(name, str) else 0
    if not 1 <= length <= _LONGEST_NAME_BYTES or "\0" in str(name):
        allowed = f"1 to {_LONGEST_NAME_BYTES} bytes, without a zero byte"
        raise InvalidOption(f"No table or column can be called {name!r}: a name has {allowed}.")
