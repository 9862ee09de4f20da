"""A history's database: one SQLite file, whose tables are the records of records.py (docs/history.md).

It is derived from the studies beside it, and can be made again from them.
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
_APPLICATION = 0x62696769  # what file(1) and SQLite know the kind of file by: "bigi"
_MADE_AGAIN = "delete it, and `bigiron history add` makes it again from the studies beside it"
_NO_HISTORY = "`bigiron history add KERNEL -o FOLDER` makes one"

_Kind = TypeVar("_Kind", bound=Record)
_COLUMN = {int: "INTEGER", bool: "INTEGER", float: "REAL"}


class History:
    """A history that is read, or written in a transaction."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path

    def select(self, kind: type[_Kind], **equal: object) -> list[_Kind]:
        """The rows of a table in which those columns have those values, in the order of the table.

        ```
        history.select(Line, point=3)
        ```
        """
        return list(
            self._records(kind, " AND ".join(f"{_quoted(column)} = ?" for column in equal), equal.values())
        )

    def find(self, kind: type[_Kind], **equal: object) -> _Kind | None:
        """The first of them."""
        return next(iter(self.select(kind, **equal)), None)

    def _records(self, kind: type[_Kind], where: str, values: Iterable[object]) -> Iterator[_Kind]:
        columns = kind.__struct_fields__
        # With the table's name: SQLite takes the name of a column that is not there for a text.
        selected = ", ".join(f"{kind.TABLE}.{_quoted(column)}" for column in columns)
        question = f"SELECT {selected} FROM {kind.TABLE}"
        question += f" WHERE {where}" if where else ""
        with _as_user_error(self.path):
            rows = self._connection.execute(f"{question} ORDER BY rowid", tuple(values)).fetchall()
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
        """Write a row; its number, which an `id` of 0 leaves to the database."""
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
        """Remove the rows in which those columns have those values."""
        where = " AND ".join(f"{_quoted(column)} = ?" for column in equal)
        self._connection.execute(f"DELETE FROM {kind.TABLE} WHERE {where}", tuple(equal.values()))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write all that is written inside, or nothing."""
        with _as_user_error(self.path), self._connection:
            yield


def database_of(path: str | Path) -> Path:
    """The database's file, of a history's folder or of a copy of the file alone."""
    path = Path(path)
    return path / FILE if path.is_dir() else path


def open_history(path: str | Path) -> History:
    """Open a history for reading: its folder, or the file alone. UserError for what is none.

    >>> history = open_history("history")  # doctest: +SKIP
    >>> [kernel.name for kernel in history.select(Kernel)]  # doctest: +SKIP
    ['debian/5.10', 'debian/6.1', 'debian/6.12', 'debian/7.2']
    """
    file = database_of(path)
    if not file.is_file():
        raise UserError(f"{path} is no history: it has no {FILE}; {_NO_HISTORY}")
    with _as_user_error(file):
        # Not mode=ro, which cannot undo what a writer left half-written that was killed.
        connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=rw", uri=True)
        connection.execute("PRAGMA query_only = ON")
    _check(connection, file)
    _refuse_loose_rows(connection, file)
    return History(connection, file)


def create(folder: Path) -> History:
    """Open a history for writing, made where there is none."""
    file = folder / FILE
    with _as_user_error(file):
        connection = sqlite3.connect(file, timeout=60)
        if not connection.execute("PRAGMA schema_version").fetchone()[0]:
            _make(connection)
    _check(connection, file)
    return History(connection, file)


def _make(connection: sqlite3.Connection) -> None:
    """All tables, or none."""
    statements = [
        "CREATE TABLE schema (version INTEGER NOT NULL, bigiron TEXT NOT NULL)",
        f"INSERT INTO schema VALUES ({VERSION}, '{bigiron.__version__}')",
        *(statement for record in RECORDS for statement in _tables(record)),
        f"PRAGMA application_id = {_APPLICATION}",
    ]
    connection.executescript("BEGIN;\n" + ";\n".join(statements) + ";\nCOMMIT;")


def _version(connection: sqlite3.Connection) -> int:
    """0 where it is no history's."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
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
    """UserError for a file that this bigiron does not read."""
    with _as_user_error(file):
        version = _version(connection)
    if not version:
        raise UserError(f"{file} is no history of bigiron's; {_NO_HISTORY}")
    if version != VERSION:
        raise UserError(
            f"{file} has version {version} and this bigiron reads {VERSION}: use the version that made it, "
            f"or delete the file, and `bigiron history add` makes it again from the studies beside it"
        )


def _refuse_loose_rows(connection: sqlite3.Connection, file: Path) -> None:
    """UserError where a row names another that is not there, or two: anybody can have written a history."""
    for record in RECORDS:
        of = record.TABLE
        for column in (*({"id"} & set(record.__struct_fields__)), *record.UNIQUE):
            question = f"SELECT 1 FROM {of} GROUP BY {of}.{_quoted(column)} HAVING COUNT(*) > 1"
            _refuse_any(connection, file, question, f"two rows of {of} have the same {column}")
        for column, table in record.NAMES.items():
            question = (
                f"SELECT 1 FROM {of} WHERE {of}.{_quoted(column)} NOT IN (SELECT {table}.id FROM {table})"
            )
            _refuse_any(connection, file, question, f"a {of} is of a {table} that it does not have")


def _refuse_any(connection: sqlite3.Connection, file: Path, question: str, damage: str) -> None:
    """UserError where a question has an answer."""
    with _as_user_error(file):
        found = connection.execute(f"{question} LIMIT 1").fetchone()
    if found:
        raise UserError(f"{file} is damaged: {damage}; {_MADE_AGAIN}")


@contextmanager
def _as_user_error(file: Path) -> Iterator[None]:
    """What SQLite says of a file that is none of its own, damaged, or in use, as a UserError."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise _unusable(file, error) from None


def _unusable(file: Path, error: Exception) -> UserError:
    return UserError(f"{file} cannot be used: {error}")
