"""Reports: opened in a real browser, read as a mail, and made of what others wrote."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import polars as pl
import pytest
from browsing import opened
from conftest import BIGIRON, bigiron
from markdown_it import MarkdownIt
from playwright.sync_api import Browser, Page, expect
from test_compare import LINE, both, counts, study_of

from bigiron import workloads
from bigiron.errors import UserError
from bigiron.probes import ProbeTable, throughput
from bigiron.report.formats import chart
from bigiron.report.study import document, html, mail, markdown
from bigiron.study import resolve, store
from bigiron.study import spec as study_spec
from bigiron.study.spec import Spec, Variant, to_toml
from bigiron.study.store import CellRecord, Study
from bigiron.util.cache_dir import cache_folder

HOSTILE = "</script><script>alert(1)</script>\x1b[31m`|*_<img src=x onerror=alert(2)>\u202e"
SHOWN = "</script><script>alert(1)</script>\\x1b[31m`|*_<img src=x onerror=alert(2)>\\u202e"
OPERATION = ("process",)
MOST_BYTES = 5_000_000


@pytest.fixture(scope="module")
def report(open1: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the main job's study."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    answer = bigiron("report", open1, "-o", file)
    assert (answer.status, answer.out, answer.err) == (0, "", ""), answer
    return file


def document_of(study: Study) -> document.StudyDocument:
    return document.document_of(study, None, OPERATION)


# In a browser


def test_it_opens_offline_without_a_complaint(browser: Browser, report: Path) -> None:
    watched = opened(browser, report)
    expect(watched.page.locator("h1")).to_contain_text("open1")
    expect(watched.page.locator("#answer .findings > li").first).to_contain_text("AppArmor")
    assert watched.is_clean(report.as_uri()), (watched.said, watched.asked)
    assert report.stat().st_size < MOST_BYTES


def test_a_click_zooms_a_flame_graph_and_a_key_brings_the_whole_back(browser: Browser, report: Path) -> None:
    page = opened(browser, report).page
    flame = page.locator("#flame-conflicts")
    frame = flame.locator(".frame", has_text="do_dentry_open").first
    whole = flame.locator(".frames").bounding_box()
    before = frame.bounding_box()
    assert whole and before and before["width"] < whole["width"] / 2
    frame.click()
    zoomed = flame.locator(".frame", has_text="do_dentry_open").first.bounding_box()
    assert zoomed and zoomed["width"] == pytest.approx(whole["width"], abs=1)
    expect(flame.locator(".readout")).to_contain_text("do_dentry_open")
    page.keyboard.press("Escape")
    expect(flame.locator("[data-whole]")).to_be_hidden()


def test_a_search_finds_a_function(browser: Browser, report: Path) -> None:
    page = opened(browser, report).page
    flame = page.locator("#flame-conflicts")
    flame.get_by_label("Find").fill("apparmor_file_open")
    expect(flame.locator(".hit").first).to_be_visible()
    expect(flame.locator("output")).to_contain_text("in 1 frame")
    work = page.locator("#instructions .places")
    work.locator("[data-filter]").fill("path_openat")
    expect(work.locator("tbody tr:visible")).to_have_count(1)
    expect(work.locator("output")).to_contain_text("1 of ")
    work.locator("[data-filter]").fill("no such function")
    expect(work.locator("tbody tr:visible")).to_have_count(0)


def test_a_difference_is_shown_by_signs_too(browser: Browser, report: Path) -> None:
    flame = opened(browser, report).page.locator("#flame-conflicts")
    expect(flame.get_by_label("debian/6.12 − debian/6.1")).to_be_checked()
    texts = flame.locator(".frame").all_inner_texts()
    assert any(text.startswith("▼") for text in texts) and any(text.startswith("▲") for text in texts)
    flame.get_by_text("debian/6.12", exact=True).click()
    assert not [text for text in flame.locator(".frame").all_inner_texts() if text[:1] in "▲▼" and text]


def test_tables_sort_by_click_and_by_key(browser: Browser, report: Path) -> None:
    page = opened(browser, report).page
    table = page.locator("#instructions table:visible").first
    heading = table.get_by_role("button", name="self").first

    def column() -> list[float]:
        cells = table.locator("tbody tr td:nth-child(2)")
        return [float(value) for value in cells.evaluate_all("cells => cells.map(c => c.dataset.value)")]

    heading.click()
    assert column() == sorted(column(), reverse=True) and len(set(column())) > 10
    heading.focus()
    page.keyboard.press("Enter")
    assert column() == sorted(column())
    names = table.locator("tbody th code")
    table.get_by_role("button", name="function").click()
    assert names.first.inner_text().lower() <= names.last.inner_text().lower()


def test_the_keyboard_walks_a_flame_graph(browser: Browser, report: Path) -> None:
    page = opened(browser, report).page
    flame = page.locator("#flame-instructions")
    flame.locator("[role=treeitem][tabindex='0']").focus()
    told = flame.locator(".readout b")
    expect(told).to_have_text("all")
    page.keyboard.press("ArrowUp")
    expect(told).not_to_have_text("all")
    above = told.inner_text()
    page.keyboard.press("Enter")
    expect(flame.locator("[data-whole]")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(told).to_have_text("all")
    page.keyboard.press("/")
    expect(flame.locator("[data-find]")).to_be_focused()
    assert above.startswith("entry_SYSCALL")


def test_dark_by_the_system_or_by_the_switch(browser: Browser, report: Path) -> None:
    def background(page: Page) -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in re.findall(r"\d+", colour)[:3])

    dark = opened(browser, report, color_scheme="dark").page
    light = opened(browser, report, color_scheme="light").page
    assert background(dark) < 150 < 600 < background(light)
    for expected in ("light", "dark"):
        light.locator("#theme").click()
        expect(light.locator("#theme")).to_have_text(f"Theme: {expected}")
    assert background(light) < 150


@pytest.mark.parametrize("width", [400, 800, 1600])
def test_no_page_is_wider_than_the_window(browser: Browser, report: Path, width: int) -> None:
    page = opened(browser, report, viewport={"width": width, "height": 800}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_prints(browser: Browser, report: Path) -> None:
    page = opened(browser, report).page
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.emulate_media(media="print")
    expect(page.locator("#theme")).to_be_hidden()


# Names that others chose


def hostile(folder: Path) -> Study:
    rows = [
        counts(
            *both(HOSTILE.replace(";", ""), times, line=LINE, object=HOSTILE), *both("g", 9, line=LINE + 64)
        )
        for times in (10, 20)
    ]
    study = study_of(folder, {"old": rows[:1], "new": rows[1:]})
    for cell in study.plan():
        file = study.folder / "cells" / cell.id / "cell.json"
        document = json.loads(file.read_text())
        document["environment"] = {
            "host": HOSTILE, "kernel_release": HOSTILE, "kernel_sha256": cell.variant.name, "bigiron": "0",
        }  # fmt: skip
        file.write_text(json.dumps(document))
    return study


def test_a_hostile_name_is_text_in_a_page(browser: Browser, tmp_path: Path) -> None:
    study = hostile(tmp_path / "s")
    file = tmp_path / "report.html"
    assert bigiron("report", study.folder, "-o", file).status == 0
    watched = opened(browser, file)
    watched.page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    assert watched.is_clean(file.as_uri()), watched.said
    expect(watched.page.locator("#conflicts tbody th summary").first).to_have_text(SHOWN)
    expect(watched.page.locator("#environments dd").first).to_have_text(SHOWN)
    watched.page.locator("#flame-conflicts .frame").last.focus()
    assert watched.page.locator("img").count() == 0


@pytest.mark.parametrize("command", ["compare", "explain", "export", "show", "report"])
def test_no_name_steers_a_terminal(tmp_path: Path, command: str) -> None:
    study = hostile(tmp_path / "s")
    more = {"export": ["--variant", "new"], "report": ["--format", "mail"]}.get(command, [])
    formats = {"compare": ("text", "markdown", "csv", "json"), "report": ("mail", "markdown")}
    for format in formats.get(command, ("",)):
        options = [*more, *(["--format", format] if format else [])]
        answer = bigiron(command, study.folder, *options)
        assert answer.status == 0
        assert all(c.isprintable() or c == "\n" for c in answer.out), (command, format)
        assert "alert(1)" in answer.out


@pytest.mark.parametrize("command", ["report", "compare"])
def test_a_hostile_name_is_text_in_markdown(command: str, tmp_path: Path) -> None:
    answer = bigiron(command, hostile(tmp_path / "s").folder, "--format", "markdown")
    # Raw HTML in Markdown goes through this renderer as it is.
    page = MarkdownIt().enable("table").render(answer.out)
    assert "alert(1)" in page
    assert "<script" not in page and "<img" not in page
    for table in re.findall("<table>.*?</table>", page, re.DOTALL):
        cells = {len(re.findall("<t[hd][ >]", row)) for row in table.split("</tr>")[:-1]}
        assert len(cells) == 1, table


# Studies of all kinds


def test_a_report_of_an_unfinished_study_says_what_is_missing(tmp_path: Path) -> None:
    rows = counts(*both("f", 10, line=LINE))
    study = study_of(tmp_path / "s", {"old": [rows, None], "new": [rows, rows]})
    shutil.rmtree(study.folder / "cells" / "new-2cpus-2tasks-r2")
    made = document_of(study)
    assert made.missing == (
        ("old, 2 CPUs, repetition 2", "failed: it burnt"),
        ("new, 2 CPUs, repetition 2", "not measured yet"),
    )
    assert "Unfinished: 2 of 4 cells have no results" in html.as_html(made)
    assert "- old, 2 CPUs, repetition 2: failed: it burnt" in mail.as_text(made)
    assert "**Unfinished.**" in markdown.as_markdown(made)


def test_a_report_of_a_study_of_which_nothing_is_measured(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", {"old": [None], "new": [None]})
    for text in (html.as_html(document_of(study)), mail.as_text(document_of(study))):
        assert "Nothing measured so far answers it." in text


def test_a_hundred_cells_stay_below_5_mb(open1: Path, tmp_path: Path) -> None:
    """The real study's cells again, as if they were of more CPUs and repetitions."""
    shutil.copytree(open1, tmp_path / "s")
    first = store.open_study(tmp_path / "s")
    spec = msgspec.structs.replace(first.spec, cpus=[2, 4, 6, 8, 12], repetitions=10)
    (tmp_path / "s" / "study.toml").write_bytes(to_toml(spec))
    measured, cells = {record.variant: record for record in first.records()}, tmp_path / "s" / "cells"
    for cell in store.open_study(tmp_path / "s").plan():
        if not (cells / cell.id).exists():
            like = measured[cell.variant.name]
            shutil.copytree(cells / like.id, cells / cell.id)
            copied = msgspec.structs.replace(
                like, id=cell.id, cpus=cell.cpus, tasks=cell.tasks, repetition=cell.repetition
            )
            (cells / cell.id / "cell.json").write_bytes(msgspec.json.encode(copied))
    made = document_of(store.open_study(tmp_path / "s"))
    assert (made.planned, made.missing) == (100, ())
    assert len(html.as_html(made).encode()) < MOST_BYTES


def test_a_report_of_a_simulated_study(tmp_path: Path) -> None:
    simulated = bigiron(
        "simulate", "rcu-flat", "--machine", "altix-512", "--set", "mask=0,3", "--cpus", "2..16",
        "--seeds", "2", "--duration", "20", "-o", tmp_path / "s",
    )  # fmt: skip
    assert simulated.status == 0, simulated
    made = document_of(store.open_study(tmp_path / "s"))
    assert "altix-512, simulated" in made.question
    assert 'class="chart"' in html.as_html(made)


def test_verdicts_and_curves_of_noisy_figures(tmp_path: Path) -> None:
    """8 % more from 4 tasks on, in 12 repetitions that vary by 1 %."""
    spec = Spec(
        workload="getppid1", probes=["throughput"], cpus=[8], tasks=[1, 2, 4, 8], repetitions=12,
        variant=[Variant(name="old", kernel="k"), Variant(name="new", kernel="k")],
    )  # fmt: skip
    study = store.create(tmp_path / "s", spec, workloads.find("getppid1"))
    for cell in study.plan():
        gain = 1.08 if cell.variant.name == "new" and cell.tasks >= 4 else 1.0
        rate = round(1e6 * cell.tasks**0.8 * gain * (1 + 0.01 * ((7 * cell.repetition + cell.tasks) % 5 - 2)))
        rows = pl.DataFrame([(0, 10**9, 0, rate)], schema=throughput.SCHEMA, orient="row")
        record = CellRecord(
            id=cell.id, variant=cell.variant.name, machine="vm", cpus=8, tasks=cell.tasks,
            repetition=cell.repetition, environment={},
        )  # fmt: skip
        study.add(record, {"throughput": ProbeTable(rows)})
    made = document_of(study)
    said = " ".join(one.sentence for one in made.answer)
    assert "throughput (VM time) with 8 tasks on 8 CPUs, new against old: changed: +8.0%, better." in said
    assert "new diverges from old at 4 tasks" in said
    assert made.judged and len(made.judged.charts) == 1
    assert "+8.0%" in mail.as_text(made) and 'id="verdicts"' in html.as_html(made)


# A mail


def test_a_mail_is_72_columns_wide(open1: Path) -> None:
    answer = bigiron("report", open1, "--format", "mail")
    assert answer.status == 0
    for line in answer.out.splitlines():
        name = line.split()[-1] if line else ""  # the last column has room for 34
        assert len(line) <= 72 or len(name) > 34 or line.startswith("    bigiron "), line
    assert "-66.7%" in answer.out and "struct aa_label.count.count" in answer.out
    assert "bigiron run study.toml -o open1" in answer.out


def test_a_mail_has_no_deviation_of_one_run(tmp_path: Path) -> None:
    rows = counts(*both("f", 10, line=LINE))
    for repetitions, said in (1, "1 run"), (2, "mean +- sd"):
        study = study_of(tmp_path / said, {"old": [rows] * repetitions, "new": [rows] * repetitions})
        text = mail.as_text(document_of(study))
        assert re.search(rf"^ *{re.escape(said)} +change +{re.escape(said)}$", text, re.MULTILINE), text
        assert ("+- sd" in text) is (repetitions > 1)
        assert f"    bigiron explain '{said}'\n" in text


# How to measure it again


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another machine's cache, with this one's kernels, and no archive to fetch any from."""
    there = tmp_path / "cache"
    there.mkdir()
    shutil.copytree(cache_folder("kernels"), there / "kernels")
    monkeypatch.setenv("BIGIRON_CACHE", str(there))
    monkeypatch.setenv("BIGIRON_DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
    return there


def test_what_reproduces_a_study_names_its_very_kernels(open1: Path, elsewhere: Path) -> None:
    study = store.open_study(open1)
    versions = {str(record.environment["kernel_version"]) for record in study.records()}
    made = document_of(study)
    fetched = [command for _, command in made.commands if "kernel fetch" in command]
    assert sorted(fetched) == sorted(f"bigiron kernel fetch debian/{version}" for version in versions)
    again, _ = resolve.resolve(study_spec.from_toml(made.study_file.encode(), "study.toml"))
    assert [variant.name for variant in again.variant] == ["debian/6.1", "debian/6.12"]
    assert {variant.kernel.removeprefix("debian/") for variant in again.variant} == versions
    assert [one.kernel_sha256 for one in again.variant] == [one.kernel_sha256 for one in study.spec.variant]
    assert msgspec.structs.replace(again, variant=study.spec.variant) == study.spec


def test_what_reproduces_a_study_is_refused_with_another_kernel(open1: Path, elsewhere: Path) -> None:
    asked = study_spec.from_toml(document_of(store.open_study(open1)).study_file.encode(), "study.toml")
    sha256 = asked.variant[0].kernel_sha256
    other = msgspec.structs.replace(asked.variant[0], kernel_sha256=f"0000{sha256[4:]}")
    with pytest.raises(
        UserError,
        match=rf"^variant debian/6\.1: the image of kernel debian/6\.1\..* here \({sha256[:12]}\) "
        rf"is not the one that the study asks for \(0000{sha256[4:12]}\)$",
    ):
        resolve.resolve(msgspec.structs.replace(asked, variant=[other, asked.variant[1]]))


def test_environments_have_what_says_something_of_the_study(open1: Path) -> None:
    common = dict(document_of(store.open_study(open1)).environments.common)
    assert common["memory, MiB"] and common["scope"] == "kernel" and common["time slice"] == "operation"
    assert not common.keys() & {
        *("cpus to cycle", "blocked min us", "blocked states", "blocked user", "depth", "functions"),
        "from snapshot",
    }


def test_call_paths_say_what_their_figures_are(report: Path) -> None:
    page = report.read_text()
    heading = (
        '<dt class="quiet">debian/6.1, debian/6.12</dt>'
        '<dd class="quiet">accesses per operation, by call path</dd><dt>2.000, 0.000</dt>'
    )
    assert heading in page


# What was not recorded


def test_a_page_says_of_what_it_says_nothing(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", {"old": [counts(*both("f", 10, line=LINE))]})
    said = (
        "No counts of locks and instructions: they were not recorded "
        "(bigiron run --probe conflicts,locks,instructions)."
    )
    made = document_of(study)
    for text in (mail.as_text(made), markdown.as_markdown(made), html.as_html(made)):
        assert said in " ".join(text.replace("\\", "").split())


def test_a_page_needs_a_file(open1: Path, tmp_path: Path) -> None:
    script = shutil.which("script")
    if not script:
        pytest.skip("no script(1) to make a terminal")
    done = subprocess.run(
        [script, "-qec", f"{BIGIRON} report {open1}", "/dev/null"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "give a file with -o report.html" in done.stdout


def test_what_cannot_be_reported(tmp_path: Path) -> None:
    assert bigiron("report", tmp_path).complaint == f"{tmp_path} is not a study: it has no study.toml"
    study = study_of(tmp_path / "s", {"old": [counts(*both("f", 10, line=LINE))]})
    assert (
        "has no variant 'x'" in bigiron("report", study.folder, "--base", "x", "-o", tmp_path / "r").complaint
    )
    assert not (tmp_path / "r").exists()


def test_an_interval_stays_in_its_picture() -> None:
    spots = (chart.DataPoint(2, 1.0, 0.5, 2.0), chart.DataPoint(8, 2.0))
    law = (chart.DataPoint(8, 2.0, -1e9, 1e9), chart.DataPoint(64, 9.0, 0.0, 1e12))
    drawn = chart.Chart("a<b", "CPUs", "ms", (chart.ChartLine("v", spots, law),)).svg
    assert "a&lt;b" in drawn
    numbers = [float(number) for number in re.findall(r"[ML,V](-?[\d.]+)", drawn)]
    assert all(-10 <= number <= 500 for number in numbers)
