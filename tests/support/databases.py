"""One empty SQL database for a test: a SQLite file, or a schema of the shared PostgreSQL."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from .postgres import Postgres


@dataclass(frozen=True, slots=True)
class Database:
    """How to reach it, also from another process: `Database(kind, place).connect()`."""

    kind: str
    #: The path of a SQLite file, or what `psycopg.connect` takes.
    place: str

    @classmethod
    def in_file(cls, path: Path) -> "Database":
        """A SQLite file, made when it is first written to."""
        return cls("sqlite", str(path))

    @classmethod
    def in_schema(cls, postgres: Postgres, name: str) -> "Database":
        """A new schema called *name*, which every connection finds first."""
        with psycopg.connect(postgres.dsn) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return cls("postgres", f"{postgres.dsn} options=-csearch_path={name}")

    def connect(self) -> Any:
        """A connection with the library's defaults: what is written needs a commit."""
        if self.kind == "sqlite":
            return sqlite3.connect(self.place, timeout=30)
        return psycopg.connect(self.place, connect_timeout=10)
