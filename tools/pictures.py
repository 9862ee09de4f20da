"""Makes the pictures in docs/ again: screenshots of pages that bigiron writes, of kernels that it boots.

    .venv/bin/python tools/pictures.py

The published points in the picture of a prediction are those of benchmarks/predictions/curves/. Needs a
Chromium, as the tests of pages do (`./setup.sh test`); takes some minutes.
"""

import csv
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
BIGIRON = Path(sys.executable).with_name("bigiron")
CURVES = HERE.parent / "benchmarks/predictions/curves/multikernel-xeon5418y-will-it-scale.csv"
MACHINE, ONE_TASK = "xeon-5418y-x2", 2.0e6
"""Where that curve was measured, and how often per second one task opens a file there."""

FREE_SPACE = HERE.parent / "tests/workloads/free_space.c"
"""The workload of docs/howto/256-cpus.md: its counts grow."""

WIDTH, HEIGHT = 1100, 900


def bigiron(folder: Path, *words: str) -> None:
    subprocess.run([str(BIGIRON), *words], cwd=folder, check=True)


def write_published(file: Path) -> None:
    """The curve of open1 as `--measured` reads it."""
    with CURVES.open(encoding="utf-8") as source:
        rows = [row for row in csv.DictReader(source) if row["curve_id"] == "mk-open1"]
    lines = [f"{row['tasks']},{float(row['throughput']) * ONE_TASK}" for row in rows]
    file.write_text("\n".join(("tasks,throughput", *lines)) + "\n", encoding="utf-8")


def make(folder: Path, page: Page) -> None:
    """All pictures, each from a study of its own in the folder."""
    bigiron(folder, "run", "open1", "--kernel", "debian/6.1", "--kernel", "debian/6.12", "-o", "compared")
    bigiron(folder, "report", "compared", "-o", "compared.html")
    page.goto((folder / "compared.html").as_uri())
    page.screenshot(path=DOCS / "images/report.png")
    page.locator("figure.flame").first.screenshot(path=DOCS / "images/flame.png")

    write_published(folder / "published.csv")
    bigiron(folder, "run", "open1", "--kernel", "debian/7.2", "-o", "predicted")
    known = ("--one-task", str(ONE_TASK), "--measured", "published.csv")
    bigiron(folder, "report", "predicted", "--machine", MACHINE, *known, "-o", "predicted.html")
    page.goto((folder / "predicted.html").as_uri())
    page.locator("#predicted figure.plot").first.screenshot(path=DOCS / "images/prediction.png")

    counts = ("--kernel", "debian/6.12", "--cpus", "2,3,4,6,8", "-o", "growing")
    bigiron(folder, "run", "--workload-file", str(FREE_SPACE), *counts)
    bigiron(folder, "report", "growing", "-o", "growing.html")
    page.goto((folder / "growing.html").as_uri())
    page.locator("figure.plot").first.screenshot(path=DOCS / "images/growth.png")

    kernels = ("debian/5.10", "debian/6.1", "debian/6.12", "debian/7.2")
    some = [word for name in ("open1", "signal1", "mmap1", "lseek1") for word in ("--workloads", name)]
    bigiron(folder, "history", "add", *kernels, "--cpus", "8", *some, "-o", "history")
    bigiron(folder, "history", "site", "history", "-o", "site")
    page.goto((folder / "site/index.html").as_uri())
    page.screenshot(path=DOCS / "images/site.png")


def main() -> None:
    """Make them."""
    chromium = shutil.which("chromium-headless-shell")
    if not chromium:
        sys.exit("no chromium-headless-shell on PATH: ./setup.sh test installs one")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory(prefix="bigiron-pictures-") as folder:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        make(Path(folder), browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}))
        browser.close()


if __name__ == "__main__":
    main()
