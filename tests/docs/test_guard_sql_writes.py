"""What the page on guarded writes cannot run by itself: PostgreSQL, and its SQL."""

from typing import Any

import psycopg

from dramatiq_streams import VersionedTable
from tests.docs.pages import page
from tests.support.postgres import Postgres

PAGE = page("docs/how-to/guard-sql-writes.md")
REPORTS = VersionedTable("reports", keys=["day"], values=["orders"])


def test_sql_of_the_page_is_what_is_executed() -> None:
    (sql,) = [block.text for block in PAGE.blocks if block.language == "sql"]

    assert " ".join(sql.split()) == REPORTS.statement()


def test_example_for_postgresql_runs_there(postgres: Postgres) -> None:
    (code,) = [block.text for block in PAGE.blocks if "psycopg" in block.text]
    row = {"day": "2026-11-30", "orders": 42}
    with psycopg.connect(postgres.dsn) as connection:
        connection.execute(
            "CREATE TABLE reports (day TEXT PRIMARY KEY, orders INTEGER, version BIGINT NOT NULL)"
        )

    accepted = [_run(code, postgres, row=row, token=token) for token in (2, 1)]

    assert accepted == [True, False]


def _run(code: str, postgres: Postgres, *, row: dict[str, Any], token: int) -> bool:
    assert '"dbname=shop"' in code
    names: dict[str, Any] = {"REPORTS": REPORTS, "row": row, "current_fencing_token": lambda: token}
    exec(code.replace("dbname=shop", postgres.dsn), names)
    return bool(names["accepted"])
