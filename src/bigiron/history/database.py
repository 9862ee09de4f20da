"""A history's database: one SQLite file, whose tables are the records of records.py.

See docs/reference/history-database.md.

It is derived from the history's studies, and can be rebuilt from them.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints

import msgspec

import bigiron
from bigiron.errors import UserError
from bigiron.history.records import RECORDS, Record
from bigiron.util import decode, sanitize

VERSION = 4
FILE = "history.sqlite"
_APPLICATION = 0x62696769  # "bigi", by which file(1) and SQLite identify the file
_MADE_AGAIN = "delete it, and `bigiron history add` rebuilds it from the history's studies"
_NO_HISTORY = "make one with `bigiron history add KERNEL -o FOLDER`"

_Kind = TypeVar("_Kind", bound=Record)
_COLUMN = {int: "INTEGER", bool: "INTEGER", float: "REAL"}


class History:
    """A history, opened for reading, or for writing in transactions."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path

    def select(self, kind: type[_Kind], **equal: object) -> list[_Kind]:
        """The rows of a table in which the given columns have the given values, in the table's order.

        ```
        history.select(Line, point=3)
        ```
        """
        return list(
            self._records(kind, " AND ".join(f"{_quoted(column)} = ?" for column in equal), equal.values())
        )

    def find(self, kind: type[_Kind], **equal: object) -> _Kind | None:
        """The first row that `select` finds."""
        return next(iter(self.select(kind, **equal)), None)

    def _records(self, kind: type[_Kind], where: str, values: Iterable[object]) -> Iterator[_Kind]:
        columns = kind.__struct_fields__
        # With the table's name: SQLite treats a quoted name without such a column as a string.
        selected = ", ".join(f"{kind.TABLE}.{_quoted(column)}" for column in columns)
        query = f"SELECT {selected} FROM {kind.TABLE}"
        query += f" WHERE {where}" if where else ""
        with _as_user_error(self.path):
            rows = self._connection.execute(f"{query} ORDER BY rowid", tuple(values)).fetchall()
        kinds = _kinds(kind)
        for row in rows:
            try:
                values_of = {
                    name: _decoded(kinds[name], value) for name, value in zip(columns, row, strict=True)
                }
                record = decode.convert(sanitize.everywhere(values_of), kind)
            except msgspec.MsgspecError as error:
                raise _unusable(self.path, error) from None
            yield record

    def add(self, record: Record) -> int:
        """Write a row and return its number. With an `id` of 0 the database chooses the number."""
        columns = record.__struct_fields__
        values = [_encoded(getattr(record, name)) for name in columns]
        if columns[0] == "id" and not values[0]:
            values[0] = None
        names, marks = ", ".join(map(_quoted, columns)), ", ".join("?" for _ in columns)
        cursor = self._connection.execute(f"INSERT INTO {record.TABLE} ({names}) VALUES ({marks})", values)
        assert cursor.lastrowid
        return cursor.lastrowid

    def update(self, kind: type[Record], id: int, **values: object) -> None:
        """Change columns of a row."""
        changed = ", ".join(f"{_quoted(column)} = ?" for column in values)
        encoded = (*map(_encoded, values.values()), id)
        self._connection.execute(f"UPDATE {kind.TABLE} SET {changed} WHERE id = ?", encoded)

    def remove(self, kind: type[Record], **equal: object) -> None:
        """Remove the rows in which the given columns have the given values."""
        where = " AND ".join(f"{_quoted(column)} = ?" for column in equal)
        self._connection.execute(f"DELETE FROM {kind.TABLE} WHERE {where}", tuple(equal.values()))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction: everything is written, or nothing."""
        with _as_user_error(self.path), self._connection:
            yield


def database_of(path: str | Path) -> Path:
    """The database file: in a history's folder, or the path itself if it is a file."""
    path = Path(path)
    return path / FILE if path.is_dir() else path


def open_history(path: str | Path) -> History:
    """Open a history for reading: its folder, or only the database file. UserError if it is neither.

    >>> history = open_history("history")  # doctest: +SKIP
    >>> [kernel.name for kernel in history.select(Kernel)]  # doctest: +SKIP
    ['debian/5.10', 'debian/6.1', 'debian/6.12', 'debian/7.2']
    """
    file = database_of(path)
    if not file.is_file():
        raise UserError(f"{path} is not a history: it has no {FILE}; {_NO_HISTORY}")
    with _as_user_error(file):
        # Not mode=ro, which cannot roll back the unfinished transaction of a killed writer.
        connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=rw", uri=True)
        connection.execute("PRAGMA query_only = ON")
    _check(connection, file)
    _refuse_loose_rows(connection, file)
    return History(connection, file)


def create(folder: Path) -> History:
    """Open a history for writing. Creates it if it does not exist."""
    file = folder / FILE
    with _as_user_error(file):
        connection = sqlite3.connect(file, timeout=60)
        if not connection.execute("PRAGMA schema_version").fetchone()[0]:
            _make(connection)
    _check(connection, file)
    return History(connection, file)


def _make(connection: sqlite3.Connection) -> None:
    """Create all tables, or none."""
    statements = [
        "CREATE TABLE schema (version INTEGER NOT NULL, bigiron TEXT NOT NULL)",
        f"INSERT INTO schema VALUES ({VERSION}, '{bigiron.__version__}')",
        *(statement for record in RECORDS for statement in _tables(record)),
        f"PRAGMA application_id = {_APPLICATION}",
    ]
    connection.executescript("BEGIN;\n" + ";\n".join(statements) + ";\nCOMMIT;")


_COMPUTED = (
    "SELECT 1 FROM sqlite_schema WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'",
    "SELECT 1 FROM sqlite_schema AS s, pragma_table_xinfo(s.name) AS c WHERE c.hidden > 0",
)
"""What finds tables or columns whose content a file makes up when they are read: a query may never end."""


def _version(connection: sqlite3.Connection) -> int:
    """The version of the database; 0 if it is not a history."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        return 0
    if any(connection.execute(query).fetchone() for query in _COMPUTED):
        return 0
    version = connection.execute("SELECT version FROM schema").fetchone()
    return version[0] if version and isinstance(version[0], int) else 0


def _tables(record: type[Record]) -> Iterator[str]:
    columns = [f"{_quoted(name)} {_column(name, kind)}" for name, kind in _kinds(record).items()]
    yield f"CREATE TABLE {record.TABLE} ({', '.join(columns)})"
    for column in record.INDEX:
        yield f"CREATE INDEX {record.TABLE}_by_{column} ON {record.TABLE} ({_quoted(column)})"


def _column(name: str, kind: Any) -> str:
    if name == "id":
        return "INTEGER PRIMARY KEY"
    return f"{_COLUMN.get(kind, 'TEXT')} NOT NULL"


def _kinds(record: type[Record]) -> Mapping[str, Any]:
    hints = get_type_hints(record)
    return {name: hints[name] for name in record.__struct_fields__}


def _quoted(column: str) -> str:
    return f'"{column}"'


def _encoded(value: object) -> object:
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    return int(value) if isinstance(value, bool) else value


def _decoded(kind: Any, value: Any) -> Any:
    """A column's value as msgspec takes it: lists and dictionaries are JSON."""
    if get_origin(kind) in (dict, list) and isinstance(value, str):
        return msgspec.json.decode(value)
    return value == 1 if kind is bool else value


def _check(connection: sqlite3.Connection, file: Path) -> None:
    """UserError if this bigiron cannot read the file."""
    with _as_user_error(file):
        version = _version(connection)
    if not version:
        raise UserError(f"{file} is not a history; {_NO_HISTORY}")
    if version != VERSION:
        raise UserError(
            f"{file} has version {version}, this bigiron reads {VERSION}: use the bigiron that made it, or "
            f"{_MADE_AGAIN}"
        )


def _refuse_loose_rows(connection: sqlite3.Connection, file: Path) -> None:
    """UserError if a row refers to a row that is missing or not unique: the file may come from anywhere."""
    for record in RECORDS:
        of = record.TABLE
        for column in (*({"id"} & set(record.__struct_fields__)), *record.UNIQUE):
            query = f"SELECT 1 FROM {of} GROUP BY {of}.{_quoted(column)} HAVING COUNT(*) > 1"
            _refuse_any(connection, file, query, f"two rows of {of} have the same {column}")
        for column, table in record.NAMES.items():
            query = f"SELECT 1 FROM {of} WHERE {of}.{_quoted(column)} NOT IN (SELECT {table}.id FROM {table})"
            _refuse_any(connection, file, query, f"a {of} refers to a {table} that does not exist")


def _refuse_any(connection: sqlite3.Connection, file: Path, query: str, damage: str) -> None:
    """UserError if the query returns a row."""
    with _as_user_error(file):
        found = connection.execute(f"{query} LIMIT 1").fetchone()
    if found:
        raise UserError(f"{file} is damaged: {damage}; {_MADE_AGAIN}")


@contextmanager
def _as_user_error(file: Path) -> Iterator[None]:
    """Turn the errors of SQLite about a file that is damaged, in use, or not a database into a UserError."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise _unusable(file, error) from None


def _unusable(file: Path, error: Exception) -> UserError:
    return UserError(f"{file} cannot be used: {error}")
