"""The site of a history: made of its database alone, and opened in a real browser."""

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import cycle
from pathlib import Path
from urllib.parse import unquote

import feedparser
import pytest
from browsing import opened
from conftest import bigiron
from hypothesis import example, given
from hypothesis import strategies as st
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as Shown
from test_report import HOSTILE, SHOWN

from bigiron.analysis.replay.prediction import Limit
from bigiron.errors import UserError
from bigiron.history import database, derive
from bigiron.history.database import History, open_history
from bigiron.history.records import (
    RECORDS,
    ChainRecord,
    ChangeRecord,
    GrowthRecord,
    IdentityRecord,
    KernelRecord,
    LineRecord,
    PointRecord,
    PredictionRecord,
    RefusalRecord,
    WorkloadRecord,
)
from bigiron.report import history as history_report
from bigiron.report.site import address, folder, site
from bigiron.report.site.reading import HistoryReader

LABEL = "struct aa_label.count.count"
KERNELS = ("debian/6.1", "debian/6.12", "debian/7.2")


@dataclass
class Written:
    """A history that a test writes: each workload with one line, accessed so often on each kernel."""

    path: Path
    kernels: tuple[str, ...] = KERNELS
    history: History = field(init=False)

    def __post_init__(self) -> None:
        self.path.mkdir()
        self.history = database.create(self.path)
        for position, name in enumerate(self.kernels):
            self.history.add(
                KernelRecord(
                    id=0, name=name, release=name, version="1", architecture="x86_64", sha256="0" * 64,
                    position=position,
                )
            )  # fmt: skip

    def identity(self, cpus: int = 8, qemu: str = "10.0.2") -> int:
        return self.history.add(
            IdentityRecord(
                id=0, workload_sha256="0" * 64, recorder="1" * 32, qemu=qemu, accelerator="tcg",
                architecture="x86_64", mode="process", operations=500, time_slice="operation", clock="host",
                memory_mib=8192, sockets=1, nodes=1, cores=cpus, threads=1, cgroup="depth=2", fs="",
            )
        )  # fmt: skip

    def workload(self, name: str, description: str = "opens and closes") -> int:
        return self.history.add(
            WorkloadRecord(
                id=0, name=name, workload=name, fs="", description=description, mode="process", operations=500
            )
        )

    def point(
        self, workload: int, kernel: int, accesses: float, identity: int,
        *, cpus: int = 8, object: str = LABEL, current: bool = True, function: str = "apparmor_file_open",
    ) -> int:  # fmt: skip
        point = self.history.add(
            PointRecord(
                id=0, workload=workload, kernel=kernel, cpus=cpus, tasks=cpus, identity=identity,
                current=current, repetitions=1, accesses_per_op=accesses, writes_per_op=accesses,
                shared_lines=1, instructions_per_op=1000.0, lost={}, measured="2026-11-23T12:00:00+00:00",
                seconds=1.0, bigiron="0.1.0", cells=[], command=f"bigiron run open1 --cpus {cpus}",
            )
        )  # fmt: skip
        if accesses:
            line = self.history.add(
                LineRecord(
                    id=0, point=point, row=1, object=object, kind=object, pair=False,
                    accesses_per_op=accesses, writes_per_op=accesses, least_accesses=accesses,
                    most_accesses=accesses, least_writes=accesses, most_writes=accesses, writers=cpus,
                    readers=cpus, false_sharing=False, sharing={"reference count": "is a kref"},
                    functions={function: accesses},
                )
            )  # fmt: skip
            path = f"do_syscall_64;do_sys_openat2;{function}"
            self.history.add(ChainRecord(point=point, line=line, path=path, accesses_per_op=accesses))
        return point

    def changed(self, workload: int, after: int, counts: tuple[float, float], name: str = LABEL) -> None:
        """Both of the line and of all lines."""
        for what, of in (("lines", ""), ("line", name)):
            was, now = counts
            how = "gone" if what == "line" and not now else "more" if now > was else "less"
            self.history.add(
                ChangeRecord(
                    id=0, workload=workload, cpus=8, before=after - 1, after=after, what=what, name=of,
                    how=how, unit="accesses", count_before=was, count_after=now,
                    functions=["apparmor_file_open"], line_before=0, line_after=0,
                )
            )  # fmt: skip

    def predicted(self, workload: int, kernel: int, point: int, relative: float) -> None:
        self.history.add(
            PredictionRecord(
                workload=workload, kernel=kernel, point=point, machine="x86-2s", tasks=256,
                relative=relative, low=relative * 0.9, high=relative * 1.1,
                limits=[Limit(kind="line", object=LABEL, share=0.4)], knee=0, refused="",
            )
        )  # fmt: skip


def small(path: Path) -> Path:
    """open1 with 6, 2 and no accesses, dup1 with none; fxmark's refused on the oldest."""
    written = Written(path)
    with written.history.writing():
        same = written.identity()
        open1, dup1, fxmark = map(written.workload, ("open1", "dup1", "fxmark/MRPL"))
        for kernel, accesses in enumerate((6.0, 2.0, 0.0), 1):
            point = written.point(open1, kernel, accesses, same)
            written.point(dup1, kernel, 0.0, same)
            written.predicted(open1, kernel, point, 256 / (1 + accesses))
            if kernel > 1:
                written.point(fxmark, kernel, 3.0 * kernel, same, object="struct dentry.d_lockref (ext4)")
        written.changed(open1, 2, (6.0, 2.0))
        written.changed(open1, 3, (2.0, 0.0))
        written.changed(fxmark, 3, (6.0, 9.0), "struct dentry.d_lockref (ext4)")
        written.history.add(
            RefusalRecord(workload=fxmark, kernel=1, cpus=0, kind="input", reason="it has no such call")
        )
        written.history.add(
            GrowthRecord(
                workload=open1, kernel=1, what="lines", name="", functions="", law="N", sure=0.99,
                text="2.000 + 0.500 N", points={"8": 6.0}, predicted={"64": (34.0, 30.0, 40.0)},
            )
        )  # fmt: skip
    return path


def made(history: Path, to: Path) -> Path:
    site.write(open_history(history), to)
    return to


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a small history. Only to be read."""
    here = tmp_path_factory.mktemp("site")
    return made(small(here / "history"), here / "site")


def page_of(pages: Path, where: str) -> Path:
    return pages / f"{where}.html"


# Addresses


@given(st.text(), st.text())
@example("open1", "OPEN1")
@example("a/b", "a-b")
@example("..", ".")
@example("", "-")
@example("con", "CON")
@example("x" * 200, "x" * 201)
def test_no_two_names_have_one_address(one: str, other: str) -> None:
    for name in (one, other):
        assert re.fullmatch(r"[a-z0-9._~-]{1,100}", address.stem(name))
        assert not address.stem(name).startswith(".")
    assert (address.stem(one) == address.stem(other)) is (one == other)


def test_addresses_are_permanent() -> None:
    """Citations rely on it."""
    assert address.workload("open1") == "workload/open1"
    assert address.workload("fxmark/DWAL@ext4") == "workload/fxmark-dwal-ext4~db95c0bfdb81"
    assert address.object("struct aa_label.count") == "object/struct-aa_label.count~c08edccc5968"
    assert address.release("debian/6.12") == "release/debian-6.12~f1d742473dda"


# What is written


def hrefs(file: Path) -> list[str]:
    found: list[str] = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend(value for name, value in attrs if name in ("href", "src") and value)

    Links().feed(file.read_text())
    return found


def test_a_workload_that_is_refused_everywhere_has_no_page_and_no_link(tmp_path: Path) -> None:
    history = small(tmp_path / "history")
    with sqlite3.connect(history / database.FILE) as connection:
        connection.execute("INSERT INTO workload VALUES (99, 'w@btrfs', 'w', 'btrfs', '', 'process', 200)")
        connection.execute("INSERT INTO refusal VALUES (99, 1, 0, 'input', 'no btrfs')")
    first = (made(history, tmp_path / "site") / "index.html").read_text()
    assert "w@btrfs" in first and "workload/w-btrfs" not in first


def test_every_link_leads_somewhere(pages: Path) -> None:
    checked = 0
    for file in pages.rglob("*.html"):
        text = file.read_text()
        for href in hrefs(file):
            where, _, part = href.partition("#")
            if href.startswith("data:"):
                continue
            target = (file.parent / unquote(where)).resolve() if where else file
            assert target.is_file() and target.is_relative_to(pages), (file, href)
            assert where or f'id="{part}"' in text, (file, href)
            checked += 1
    assert checked > 50


def test_the_data_lies_beside_each_page(pages: Path) -> None:
    for file in pages.rglob("*.html"):
        document = json.loads(file.with_suffix(".json").read_text())
        assert all(len(row) == len(document["columns"]) for row in document["rows"])
    document = json.loads((pages / "workload/open1.json").read_text())
    rows = [dict(zip(document["columns"], row, strict=True)) for row in document["rows"]]
    (row,) = [row for row in rows if row["kernel"] == "debian/6.12"]
    assert (row["object"], row["accesses_per_op"], row["writers"]) == (LABEL, 2.0, 8)
    assert document["functions"][LABEL] == ["apparmor_file_open"]


def test_the_same_history_makes_the_same_site(pages: Path, tmp_path: Path) -> None:
    again = made(small(tmp_path / "history"), tmp_path / "site")
    files = {file.relative_to(pages): file.read_bytes() for file in pages.rglob("*") if file.is_file()}
    assert files == {f.relative_to(again): f.read_bytes() for f in again.rglob("*") if f.is_file()}


def lines_of(pages: Path, where: str) -> list[int]:
    """How many points each line of a workload's first chart has."""
    chart = page_of(pages, where).read_text().partition('<svg class="chart"')[2].partition("</svg>")[0]
    return [len(path.split("L")) for path in re.findall(r'<path class="line" d="M([^"]*)"', chart)]


def test_points_of_two_identities_are_never_one_line(tmp_path: Path) -> None:
    written = Written(tmp_path / "history")
    with written.history.writing():
        old, new = written.identity(qemu="10.0.2"), written.identity(qemu="11.0.0")
        workload = written.workload("open1")
        written.point(workload, 1, 6.0, old)
        written.point(workload, 2, 2.0, old)
        written.point(workload, 3, 2.0, new)
        written.point(workload, 2, 3.0, new, current=False)
    pages = made(tmp_path / "history", tmp_path / "site")
    assert lines_of(pages, "workload/open1") == [2, 2]
    text = page_of(pages, "workload/open1").read_text()
    assert re.findall("<caption>With 8 CPUs, (QEMU [^:]*):", text) == ["QEMU 11.0.0", "QEMU 10.0.2"]
    assert "debian/7.2: cannot be compared with debian/6.12, as the setup differs (QEMU" in text
    home = page_of(pages, "index").read_text()
    assert len(re.findall(r'<td class="figure h\d apart"', home)) == 2
    assert "None of 1 workloads can be compared" in home and "against" not in home
    assert (
        "No older kernel was measured with the same setup"
        in page_of(pages, address.release("debian/7.2")).read_text()
    )


def test_what_was_compared_is_named_and_not_what_stands_before(tmp_path: Path) -> None:
    """The same measured 6.1 and 7.2; 6.12 was measured by something else, or not at all."""
    written = Written(tmp_path / "history")
    with written.history.writing():
        old, new = written.identity(qemu="10.0.2"), written.identity(qemu="11.0.0")
        for name, between in (("open1", old), ("dup1", 0)):
            workload = written.workload(name)
            for kernel, accesses, identity in ((1, 6.0, new), (2, 6.0, between), (3, 2.0, new)):
                if identity:
                    written.point(workload, kernel, accesses, identity)
    with written.history.writing():
        for workload in written.history.select(WorkloadRecord):
            derive.derive(written.history, workload.id)
    pages = made(tmp_path / "history", tmp_path / "site")
    release = page_of(pages, address.release("debian/7.2")).read_text()
    assert "against debian/6.1<" in release and "Against debian/6.1, of 2 workloads" in release
    assert "against debian/6.1, accesses" in page_of(pages, "index").read_text()
    for name in "open1", "dup1":
        text = page_of(pages, f"workload/{name}").read_text()
        assert "debian/7.2, against debian/6.1: struct aa_label.count.count 6.00 → 2.00" in text
    about = json.loads((pages / f"{address.release('debian/7.2')}.json").read_text())
    assert about["against"] == ["debian/6.1"]


def test_points_of_one_identity_are_one_line(pages: Path) -> None:
    assert lines_of(pages, "workload/open1") == [3]
    assert " apart" not in page_of(pages, "index").read_text().partition("<tbody")[2].partition("</table>")[0]


def test_each_page_says_what_why_and_whether_it_matters(pages: Path) -> None:
    where = {
        "workload/open1": ("no longer by", "Predicted for 256 tasks on x86-2s: 256 (230 to 282)", "Yes."),
        address.object(LABEL): ("debian/7.2: in open1", "debian/7.2 no longer has it", "Yes."),
        address.release("debian/7.2"): (
            "fxmark/MRPL: struct dentry.d_lockref", "fxmark/MRPL changed most", "Up to a point.",
        ),
    }  # fmt: skip
    for one, (why, because, verdict) in where.items():
        text = page_of(pages, one).read_text()
        for question in ("What is measured?", "Why did it change?", "May I ignore it?"):
            assert question in text
        if one != "workload/open1":
            assert why in text, one
        assert because in text and verdict in text, one


def test_an_object_is_not_gone_while_another_line_of_it_is_new(tmp_path: Path) -> None:
    """Nor where only its name differs: the same line, by its number, is the same object."""
    written = Written(tmp_path / "history", kernels=KERNELS[:2])
    with written.history.writing():
        same = written.identity()
        split, renamed, gone = map(written.workload, ("split", "renamed", "rid"))
        written.point(split, 1, 3.0, same, object="struct page+0x40 (slab)")
        written.point(split, 2, 5.0, same, object="struct page+0x80 (slab)")
        written.point(renamed, 1, 3.0, same, object="struct lruvec.pages[2]")
        written.point(renamed, 2, 9.0, same, object="struct lruvec.pages[3]")
        written.point(gone, 1, 3.0, same)
        written.point(gone, 2, 0.0, same)
        written.changed(split, 2, (3.0, 0.0), "struct page+0x40 (slab)")
        written.changed(renamed, 2, (3.0, 9.0), "struct lruvec.pages[3]")
        written.changed(gone, 2, (3.0, 0.0))
    pages = made(tmp_path / "history", tmp_path / "site")
    text = page_of(pages, address.release("debian/6.12")).read_text()
    lists = text.partition('id="objects"')[2].partition("</section>")[0]
    assert re.findall(r"<h3>(\w+ \w+) <span class=\"quiet\">(\d+)", lists) == [
        ("Lines gone", "1"),
        ("New lines", "0"),
    ]
    assert LABEL in lists
    assert "split: struct page 3.00 → 5.00" in text
    old = page_of(pages, address.object("struct lruvec.pages[2]")).read_text()
    assert "debian/6.12: in renamed struct lruvec.pages[3] 3.00 → 9.00" in old


def test_what_is_refused_is_reported(pages: Path) -> None:
    assert 'title="it has no such call">×</td>' in page_of(pages, "index").read_text()
    text = page_of(pages, address.workload("fxmark/MRPL")).read_text()
    assert "debian/6.1: it has no such call" in text


# Whole or not at all, and no foreign folder


def test_a_site_replaces_its_own_and_nothing_else(pages: Path, tmp_path: Path) -> None:
    history = small(tmp_path / "history")
    to = made(history, tmp_path / "site")
    (to / "workload" / "gone.html").write_text("")
    with pytest.raises(
        UserError, match=r"has workload/gone\.html, which `bigiron history site` did not write"
    ):
        made(history, to)
    (to / "workload" / "gone.html").unlink()
    made(history, to)
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.tex").write_text("years of work")
    answer = bigiron("history", "site", history, "-o", other)
    assert answer.status == 2 and "thesis has chapter.tex" in answer.complaint
    assert (other / "chapter.tex").read_text() == "years of work"
    (tmp_path / "link").symlink_to(to)
    with pytest.raises(UserError, match="is not a folder"):
        made(history, tmp_path / "link")


def test_a_folder_of_something_else_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be huge."""
    looked_into, into = [], Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: looked_into.append(path) or into(path))
    with pytest.raises(UserError, match=r"^/ has \w+, which `bigiron history site` did not write"):
        folder.write(Path("/"), iter(()), {})
    assert looked_into == [Path("/")]


def test_a_site_that_cannot_be_finished_leaves_the_old_one(pages: Path, tmp_path: Path) -> None:
    shutil.copytree(pages, tmp_path / "site")
    twice = iter([("index.html", b"new"), ("a.html", b""), ("a.html", b"")])
    with pytest.raises(UserError, match=r"share the page a\.html"):
        folder.write(tmp_path / "site", twice, {})
    assert (tmp_path / "site/index.html").read_bytes() == (pages / "index.html").read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == ["site"]


def test_what_is_no_history(tmp_path: Path) -> None:
    answer = bigiron("history", "site", tmp_path, "-o", tmp_path / "site")
    assert answer.status == 2 and "is not a history" in answer.complaint
    Written(tmp_path / "empty")
    answer = bigiron("history", "site", tmp_path / "empty", "-o", tmp_path / "site")
    assert answer.status == 2 and "has no points yet" in answer.complaint
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("point", "kernel", 99),
        ("point", "measured", "yesterday"),
        ("change", "before", 99),
        ("prediction", "tasks", 0),
    ],
)
def test_a_history_whose_rows_do_not_belong_together(
    tmp_path: Path, table: str, column: str, value: object
) -> None:
    history = small(tmp_path / "history")
    with sqlite3.connect(history / database.FILE) as connection:
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
    answer = bigiron("history", "site", history, "-o", tmp_path / "site")
    assert answer.status == 2 and "is damaged" in answer.complaint
    assert not (tmp_path / "site").exists()


def damages() -> Iterator[tuple[str, str]]:
    """Every table and column that a history's database has, with what is wrong there."""
    for record in RECORDS:
        table = record.TABLE
        yield f"{table} is gone", f"DROP TABLE {table}"
        for column, value in zip(record.__struct_fields__, cycle(("'text'", "NULL", "9e999", "-1"))):
            yield f"{table}.{column} is gone", f'ALTER TABLE {table} DROP COLUMN "{column}"'
            yield f"{table}.{column} is {value}", f'UPDATE {table} SET "{column}" = {value}'
        yield f"{table} is there twice", f"INSERT INTO {table} SELECT * FROM {table}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history's database without any constraint, as if made by hand."""
    file = small(tmp_path_factory.mktemp("damaged") / "history") / database.FILE
    with closing(sqlite3.connect(file)) as connection:
        for table in (record.TABLE for record in RECORDS):
            connection.execute(f"CREATE TABLE loose AS SELECT * FROM {table}")
            connection.execute(f"DROP TABLE {table}")
            connection.execute(f"ALTER TABLE loose RENAME TO {table}")
        connection.commit()
    return file


@pytest.mark.slow
@pytest.mark.parametrize("table", [record.TABLE for record in RECORDS])
def test_no_damage_is_more_than_a_complaint(whole: Path, tmp_path: Path, table: str) -> None:
    for damage, statement in damages():
        if not damage.startswith((f"{table}.", f"{table} ")):
            continue
        file = shutil.copy(whole, tmp_path / "history.sqlite")
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(statement)
            connection.commit()
        for shows in (
            history_report.overview,
            lambda history: history_report.of_workload(history, "open1"),
            lambda history: history_report.of_object(history, "struct aa_label"),
            lambda history: history_report.of_kernel(history, "debian/6.12"),
        ):
            try:
                view = shows(open_history(file))
                assert all(form(view) for form in history_report.FORMATS.values())
            except UserError as error:
                assert "\n" not in str(error), damage
        try:
            assert list(site.pages(HistoryReader(open_history(file))))
        except UserError as error:
            assert "\n" not in str(error), damage


# The feed


def test_a_reader_of_feeds_reads_the_feed(pages: Path) -> None:
    feed = feedparser.parse((pages / "feed.xml").read_bytes())
    assert not feed.bozo and feed.version == "atom10"
    assert feed.feed.title and feed.feed.id.startswith("urn:uuid:") and feed.feed.updated_parsed
    assert [entry.title for entry in feed.entries] == [
        "fxmark/MRPL on debian/7.2: 6.00 → 9.00 accesses per operation with 8 CPUs "
        "(▲ 50 % since debian/6.12)",
        "open1 on debian/7.2: 2.00 → 0 accesses per operation with 8 CPUs (gone since debian/6.12)",
        "open1 on debian/6.12: 6.00 → 2.00 accesses per operation with 8 CPUs (▼ 67 % since debian/6.1)",
    ]
    assert len({entry.id for entry in feed.entries}) == 3
    assert all((pages / entry.link).is_file() and entry.updated_parsed for entry in feed.entries)
    # What was read once must not come up again as new.
    assert feed.entries[2].id == "urn:uuid:1eb679a9-04c1-5df8-a4de-2358b2a00085"


# In a browser


def rows_shown(page: Shown) -> list[str]:
    return page.locator("#cells tr[data-row]:visible th a").all_inner_texts()


def test_it_opens_from_a_folder_without_a_complaint(browser: Browser, pages: Path) -> None:
    for file in sorted(pages.rglob("*.html")):
        watched = opened(browser, file)
        assets = [(pages / name).as_uri() for name in ("style.css", "site.js")]
        assert not watched.said and sorted(watched.asked) == sorted([file.as_uri(), *assets]), watched.said
        watched.page.close()


def test_the_first_page_is_filtered_without_a_server(browser: Browser, pages: Path) -> None:
    page = opened(browser, page_of(pages, "index")).page
    assert rows_shown(page) == ["dup1", "open1", "MRPL"]  # the hottest first, suite by suite
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type("d_lockref")
    assert rows_shown(page) == ["MRPL"]
    expect(page.locator("#count")).to_have_text("1 of 3 workloads")
    page.locator("#find").fill("")
    page.get_by_label("changed by debian/7.2").check()
    assert rows_shown(page) == ["open1", "MRPL"]


def test_a_view_of_the_first_page_can_be_cited(browser: Browser, pages: Path) -> None:
    page = opened(browser, page_of(pages, "index")).page
    cells = page.locator("#cells tr", has_text="open1").locator("td.figure:not(.ahead)")
    assert cells.all_inner_texts() == ["6.00", "▼2.00", "▼0"]
    page.get_by_label("Show").select_option(
        label="predicted throughput of 256 tasks on x86-2s, relative to one task"
    )
    expect(cells.nth(1)).to_have_text("85.376.8 to 93.9")
    page.locator("#find").fill("open1")
    again = opened(browser, page_of(pages, "index"), part=page.evaluate("location.hash")).page
    assert rows_shown(again) == ["open1"]
    expect(again.locator("#cells tr", has_text="open1").locator("td.figure:not(.ahead)").nth(1)).to_have_text(
        "85.376.8 to 93.9"
    )


def test_the_graph_of_the_difference_chooses_two_kernels(browser: Browser, pages: Path) -> None:
    page = opened(browser, page_of(pages, "workload/open1")).page
    flame = page.locator("#flame-conflicts")
    expect(flame.locator(".frame", has_text="do_sys_openat2")).to_have_text("▼ do_sys_openat2")
    flame.get_by_text("debian/6.1", exact=True).click()
    expect(flame.locator(".frame", has_text="do_sys_openat2")).to_have_text("do_sys_openat2")


@pytest.mark.parametrize("width", [400, 800, 1600])
def test_no_page_is_wider_than_the_window(browser: Browser, pages: Path, width: int) -> None:
    page = opened(browser, page_of(pages, "index"), viewport={"width": width, "height": 800}).page
    for file in pages.rglob("*.html"):
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, file


def test_dark_by_the_switch_on_every_page(browser: Browser, pages: Path) -> None:
    page = opened(browser, page_of(pages, "index"), color_scheme="light").page
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for _ in range(2):
        page.locator("#theme").click()
    page.locator("#cells a", has_text="open1").click()
    expect(page.locator("h1")).to_have_text("open1")
    expect(page.locator("#theme")).to_have_text("Theme: dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_a_hostile_name_is_text_and_leaves_no_folder(browser: Browser, tmp_path: Path) -> None:
    name = f"../../{HOSTILE}"
    written = Written(tmp_path / "history", kernels=(f"../{HOSTILE}", "debian/7.2"))
    with written.history.writing():
        same = written.identity()
        workload = written.workload(name, description=HOSTILE)
        for kernel, accesses in ((1, 2.0), (2, 6.0)):
            written.point(workload, kernel, accesses, same, object=HOSTILE, function=HOSTILE.replace(";", ""))
        written.changed(workload, 2, (2.0, 6.0), HOSTILE)
    pages = made(tmp_path / "history", tmp_path / "site")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["history", "site"]
    files = sorted(pages.rglob("*.html"))
    assert len(files) == 6
    for file in files:
        watched = opened(browser, file)
        watched.page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        assert not watched.said and watched.page.locator("img").count() == 0, (file, watched.said)
        assert "alert(1)" in watched.page.locator("body").inner_text()
    heading = opened(browser, page_of(pages, address.workload(f"../../{SHOWN}"))).page.locator("h1")
    expect(heading).to_have_text(f"../../{SHOWN}")
    assert not feedparser.parse((pages / "feed.xml").read_bytes()).bozo


# Of a real history


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """open1 and dup1 on 6.1 and 6.12, measured, as a site."""
    here = tmp_path_factory.mktemp("real")
    options = ("--cpus", "4", "--workloads", "open1", "--workloads", "dup1", "-o", here / "history")
    added = bigiron("history", "add", "debian/6.1", "debian/6.12", *options)
    assert added.status == 0, added
    answer = bigiron("history", "site", here / "history", "-o", here / "site")
    made = [str(file.relative_to(here / "site").with_suffix("")) for file in (here / "site").rglob("*.html")]
    assert answer.status == 0 and answer.out.startswith(f"{len(made)} pages, "), answer
    # Now and then the allocator takes a list of partial slabs once more, and that has a page.
    lasting = [page for page in made if "kmem_cache" not in page]
    assert len(lasting) == 7 and address.object(LABEL) in lasting, made
    return here / "site"


def test_the_site_of_a_real_history(browser: Browser, real: Path) -> None:
    page = opened(browser, page_of(real, "index")).page
    cells = page.locator("#cells tr", has_text="open1").locator("td.figure:not(.ahead)")
    assert [text[:-1] for text in cells.all_inner_texts()] == ["6.0", "▼2.0"]
    page.locator("#newest").get_by_role("link", name=LABEL).or_(
        page.locator("#shared").get_by_role("link", name=LABEL)
    ).first.click()
    expect(page.locator("h1")).to_have_text(f"Who writes {LABEL}?")
    expect(page.locator("#functions")).to_contain_text("apparmor_file_free_security")
    page.locator("#workloads").get_by_role("link", name="open1").click()
    expect(page.locator("#answers")).to_contain_text("debian/6.12: struct aa_label.count.count 6.00 → 2.00")
    expect(page.locator(".command code")).to_contain_text("bigiron run open1 --kernel debian/6.12")


def test_no_page_claims_that_all_counts_are_exact() -> None:
    """docs/validation/repeatability.md: some vary from boot to boot."""
    templates = Path(site.__file__).parent / "templates"
    assert not any("exact" in file.read_text() for file in templates.glob("*.html"))
