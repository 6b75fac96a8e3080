"""Writes guarded by a token, in SQLite and in PostgreSQL."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from dramatiq_streams import InvalidOption, VersionedTable
from tests.support.databases import Database
from tests.support.postgres import Postgres
from tests.support.waiting import wait_until

#: Names that have to be quoted, and that must not be taken for parameters or for formats.
ODD = VersionedTable(
    'odd "table" %s {}', keys=["key", "Order"], values=["100%", "a?b"], version="select"
)
ROWS = VersionedTable("rows", keys=["id"], values=["value"])
#: As large as tokens are: microseconds since 1970.
TOKEN = 1_795_000_000_000_000


@pytest.fixture
def connection(database: Database) -> Iterator[Any]:
    """A connection to a database with the table of `ROWS`."""
    with closing(database.connect()) as made:
        made.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, value TEXT, version BIGINT)")
        made.commit()
        yield made


def rows(connection: Any) -> list[Any]:
    return connection.execute("SELECT * FROM rows ORDER BY id").fetchall()


def write(connection: Any, value: str, *, token: int) -> bool:
    accepted = ROWS.write(connection, {"id": 1, "value": value}, token=token)
    connection.commit()
    return accepted


def test_first_write_of_a_row_is_accepted(connection: Any) -> None:
    assert write(connection, "first", token=TOKEN)

    assert rows(connection) == [(1, "first", TOKEN)]


def test_newer_token_replaces_the_row(connection: Any) -> None:
    write(connection, "old", token=TOKEN)

    assert write(connection, "new", token=TOKEN + 1)

    assert rows(connection) == [(1, "new", TOKEN + 1)]


def test_older_token_is_refused_and_changes_nothing(connection: Any) -> None:
    write(connection, "new", token=TOKEN + 1)

    assert not write(connection, "old", token=TOKEN)

    assert rows(connection) == [(1, "new", TOKEN + 1)]


def test_same_holder_may_write_again_and_repeat_a_write(connection: Any) -> None:
    write(connection, "draft", token=TOKEN)

    assert write(connection, "final", token=TOKEN)
    assert write(connection, "final", token=TOKEN)

    assert rows(connection) == [(1, "final", TOKEN)]


def test_row_from_before_there_were_tokens_is_replaced(connection: Any) -> None:
    connection.execute("INSERT INTO rows (id, value) VALUES (1, 'imported')")

    assert write(connection, "new", token=1)

    assert rows(connection) == [(1, "new", 1)]


def test_each_row_has_its_own_token(connection: Any) -> None:
    write(connection, "one", token=TOKEN + 1)

    assert ROWS.write(connection, {"id": 2, "value": None}, token=TOKEN)

    assert rows(connection) == [(1, "one", TOKEN + 1), (2, None, TOKEN)]


def test_write_is_part_of_the_callers_transaction(connection: Any) -> None:
    assert ROWS.write(connection, {"id": 1, "value": "never"}, token=TOKEN)

    connection.rollback()

    assert rows(connection) == []


def test_values_are_never_taken_for_sql(connection: Any) -> None:
    value = "'); DROP TABLE rows; --%s ? {}"

    assert write(connection, value, token=TOKEN)

    assert rows(connection) == [(1, value, TOKEN)]


def test_any_name_of_a_table_or_column_is_possible(connection: Any, database: Database) -> None:
    mark = "%" if database.kind == "sqlite" else "%%"
    create = (
        f'CREATE TABLE "odd ""table"" {mark}s {{}}" ("key" TEXT, "Order" INTEGER,'
        f' "100{mark}" TEXT, "a?b" TEXT, "select" BIGINT, PRIMARY KEY ("key", "Order"))'
    )
    connection.execute(create, [])
    row = {"key": "k", "Order": 1, "100%": "x", "a?b": "y"}

    assert ODD.write(connection, row, token=2)
    assert not ODD.write(connection, {**row, "a?b": "z"}, token=1)
    assert ODD.write(connection, {**row, "Order": 2}, token=1)

    found = connection.execute(
        'SELECT "Order", "a?b", "select" FROM "odd ""table"" %s {}"'.replace("%", mark), []
    )
    assert sorted(found.fetchall()) == [(1, "y", 2), (2, "y", 1)]


def test_table_of_another_schema_is_named_with_it(postgres: Postgres, database: Database) -> None:
    if database.kind == "sqlite":
        with closing(database.connect()) as made:
            made.execute("ATTACH ':memory:' AS other")
            made.execute("CREATE TABLE other.t (k INTEGER PRIMARY KEY, version INTEGER)")
            table = VersionedTable("t", keys=["k"], values=[], schema="other")

            assert table.write(made, {"k": 1}, token=TOKEN)
            assert not table.write(made, {"k": 1}, token=1)
        return
    with closing(database.connect()) as made:
        (own,) = made.execute("SELECT current_schema()").fetchone()
        made.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, version BIGINT)")
        made.execute("SET search_path TO public")
        table = VersionedTable("t", keys=["k"], values=[], schema=own)

        assert table.write(made, {"k": 1}, token=TOKEN)
        assert not table.write(made, {"k": 1}, token=1)


def test_any_kind_of_row_that_psycopg_can_return_will_do(postgres: Postgres) -> None:
    with psycopg.connect(postgres.dsn, row_factory=psycopg.rows.dict_row) as connection:
        connection.execute(
            "CREATE TEMPORARY TABLE rows (id INT PRIMARY KEY, value TEXT, version BIGINT NOT NULL)"
        )

        assert ROWS.write(connection, {"id": 1, "value": "x"}, token=TOKEN)


@pytest.mark.parametrize("kind", [psycopg.ClientCursor, psycopg.RawCursor])
def test_cursors_that_write_parameters_in_their_own_way_will_do(
    postgres: Postgres, kind: Any
) -> None:
    with psycopg.connect(postgres.dsn, cursor_factory=kind) as connection:
        connection.execute(
            'CREATE TABLE raw_rows (id INTEGER PRIMARY KEY, "v%s" TEXT, version BIGINT)'
        )
        table = VersionedTable("raw_rows", keys=["id"], values=["v%s"])

        accepted = [
            table.write(connection, {"id": 1, "v%s": "$1 %s"}, token=token) for token in (2, 2, 1)
        ]

        assert accepted == [True, True, False]
        assert connection.execute("SELECT * FROM raw_rows").fetchall() == [(1, "$1 %s", 2)]
        connection.rollback()


def test_pipeline_is_refused_since_it_cannot_tell_what_was_written(postgres: Postgres) -> None:
    told = pytest.raises(InvalidOption, match="A pipeline does not say at once")
    with psycopg.connect(postgres.dsn) as connection, connection.pipeline(), told:
        ROWS.write(connection, {"id": 1, "value": "x"}, token=TOKEN)


@pytest.mark.parametrize(
    ("first", "then", "kept"),
    [(TOKEN + 1, TOKEN, "first"), (TOKEN, TOKEN + 1, "second"), (TOKEN, TOKEN, "second")],
    ids=["older", "newer", "same"],
)
def test_write_that_waited_for_another_transaction_is_judged_by_what_that_committed(
    database: Database, connection: Any, first: int, then: int, kept: str
) -> None:
    accepted: list[bool] = []

    def write_second() -> None:
        with closing(database.connect()) as mine:
            accepted.append(write(mine, "second", token=then))

    ROWS.write(connection, {"id": 1, "value": "first"}, token=first)
    second = threading.Thread(target=write_second)
    second.start()
    _wait_until_somebody_waits(database)
    assert second.is_alive()
    assert accepted == []
    connection.commit()
    second.join(20)

    assert accepted == [kept == "second"]
    assert rows(connection) == [(1, kept, max(first, then))]


def _wait_until_somebody_waits(database: Database) -> None:
    if database.kind == "sqlite":
        return  # it cannot be looked at; the second thread waits as soon as it begins to write
    with psycopg.connect(database.place, autocommit=True) as looker:
        query = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        wait_until(lambda: looker.execute(query).fetchone(), message="a transaction waits")


def test_of_many_writers_the_highest_token_wins(database: Database, connection: Any) -> None:
    accepted: dict[int, bool] = {}
    together = threading.Barrier(8)

    def write_some(first: int) -> None:
        with closing(database.connect()) as mine:
            together.wait()
            for token in reversed(range(first, 200, 8)):
                accepted[token] = write(mine, f"by {token}", token=token + 1)

    # Each thread begins with its highest, so that most of what follows is late.
    threads = [threading.Thread(target=write_some, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert len(accepted) == 200
    assert accepted[199]
    assert rows(connection) == [(1, "by 199", 200)]
