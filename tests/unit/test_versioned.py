import sqlite3
import subprocess
import sys
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from dramatiq_streams import InvalidOption, VersionedTable

PAGES = VersionedTable("pages", keys=["url"], values=["title"], version="token")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"keys": []}, r"keys=\[\] is not possible: keys must be at least one"),
        ({"keys": "url"}, "keys='url' is not possible: keys must be a sequence"),
        ({"values": "title"}, "values='title' is not possible: values must be a sequence"),
        ({"values": ["url"]}, "Column 'url' of table 'pages' is named twice"),
        ({"version": "title"}, "Column 'title' of table 'pages' is named twice"),
        ({"values": [""]}, "No table or column can be called ''"),
        ({"values": [7]}, "No table or column can be called 7"),
        ({"values": ["a\0b"]}, "without a zero byte"),
        ({"name": "ö" * 32}, "a name has 1 to 63 bytes"),
        ({"name": "\ud800"}, r"No table or column can be called '\\ud800'"),
        ({"keys": ["a\udfffb"]}, "a name has 1 to 63 bytes in UTF-8"),
        ({"schema": ""}, "No table or column can be called ''"),
    ],
)
def test_impossible_table_is_refused_when_it_is_made(options: dict[str, Any], told: str) -> None:
    given = {"name": "pages", "keys": ["url"], "values": ["title"], **options}

    with pytest.raises(InvalidOption, match=told):
        VersionedTable(**given)


@pytest.mark.parametrize("token", [0, -1, 2**63, 1.0, True, "1", None])
def test_impossible_token_is_refused(token: Any) -> None:
    with pytest.raises(InvalidOption, match=r"token=.* must be a whole number from 1"):
        PAGES.write(object(), {"url": "u", "title": "t"}, token=token)


def test_row_of_other_columns_is_refused_by_their_names() -> None:
    told = "exactly title, url: 'title' is missing, 'tilte' is unknown"

    with pytest.raises(InvalidOption, match=told):
        PAGES.write(object(), {"url": "u", "tilte": "t"}, token=1)


@pytest.mark.parametrize("row", [None, [("url", "u"), ("title", "t")], "url", 7])
def test_row_that_is_no_mapping_is_refused(row: Any) -> None:
    with pytest.raises(InvalidOption, match=r"row=.* is not possible: row must be a mapping"):
        PAGES.write(object(), row, token=1)


@pytest.mark.parametrize(
    "value", [None, float("nan"), Decimal("NaN"), Decimal("sNaN"), -float("nan")], ids=repr
)
def test_key_that_no_database_finds_again_is_refused_and_its_column_named(value: Any) -> None:
    table = VersionedTable("pages", keys=["site", "url"], values=["title"])
    row = {"site": "s", "url": value, "title": None}

    with pytest.raises(InvalidOption, match=r"key column 'url'.* no token would guard it"):
        table.write(object(), row, token=1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"values": ["Version"]}, "'Version' and 'version' of table 't' are one"),
        ({"keys": ["k", "K"], "values": []}, "'k' and 'K' of table 't' are one"),
    ],
)
def test_columns_that_are_one_in_sqlite_are_refused_there(
    options: dict[str, Any], told: str
) -> None:
    given: dict[str, Any] = {"keys": ["k"], **options}
    table = VersionedTable("t", **given)
    row = dict.fromkeys([*table.keys, *table.values], 1)

    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (k PRIMARY KEY, version INTEGER)")
        with pytest.raises(InvalidOption, match=told):
            table.write(connection, row, token=1)


def test_connection_of_another_library_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"connection=.* must be a sqlite3.Connection or psy"):
        PAGES.write(object(), {"url": "u", "title": "t"}, token=1)


def test_statement_is_what_a_reader_would_write() -> None:
    assert PAGES.statement("%s") == (
        'INSERT INTO "pages" AS held ("url", "title", "token") VALUES (%s, %s, %s)'
        ' ON CONFLICT ("url") DO UPDATE SET "title" = excluded."title", "token" = excluded."token"'
        ' WHERE COALESCE(held."token", 0) <= excluded."token"'
    )


def test_psycopg_is_not_imported_for_sqlite() -> None:
    program = (
        "import sqlite3, sys\n"
        "from dramatiq_streams import VersionedTable\n"
        "connection = sqlite3.connect(':memory:')\n"
        "connection.execute('CREATE TABLE t (k PRIMARY KEY, version INTEGER)')\n"
        "assert VersionedTable('t', keys=['k'], values=[]).write(connection, {'k': 1}, token=1)\n"
        "assert 'psycopg' not in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
