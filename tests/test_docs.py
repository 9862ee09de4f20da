"""`make docs`: transcripts are made again, and counts that no longer hold are found."""

import doctest
import importlib.util
import itertools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import yaml
from test_setup import ROOT

from bigiron import compile, probes, workloads
from bigiron.analysis.lines import rules
from bigiron.analysis.replay import trace
from bigiron.analysis.statistics.verdict import Look
from bigiron.gate import baseline as baselines
from bigiron.gate.baseline import Baseline
from bigiron.gate.check_lines import BaselineFunction, BaselineInstructions, BaselineLine, BaselinePoint
from bigiron.report import gate
from bigiron.study.spec import Simulation, Spec, Variant


def tool(name: str) -> ModuleType:
    """A module of tools/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


docs = tool("docs")
cli_reference = tool("cli_reference")


def of_root(file: Path) -> str:
    return str(file.relative_to(ROOT))


def page(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(docs, "ROOT", folder)
    (folder / "page.md").write_text(text)
    return folder / "page.md"


def transcript(kind: str, *lines: str) -> str:
    return (
        f"Before.\n\n<!-- output: {kind} -->\n```\n"
        + "".join(f"{line}\n" for line in lines)
        + "```\n\nAfter.\n"
    )


@pytest.mark.parametrize("module", [docs, cli_reference], ids=lambda module: module.__name__)
def test_the_examples(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("file", docs.pages(), ids=of_root)
def test_every_transcript_says_how_it_is_made(file: Path) -> None:
    for block in docs.blocks(file):
        if block.is_transcript:
            reason = block.kind.removeprefix("not made: ")
            assert block.is_made or reason != block.kind, f"{file}:{block.line} has no `<!-- output: ... -->`"


def test_pages_are_found_in_all_folders_but_those_made_by_benchmarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    written = ["README.md", "docs/howto/ci.md", "docs/index.md"]
    for name in (*written, "docs/validation/regressions/gate.md", "docs/results/matrix.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [str(file.relative_to(tmp_path)) for file in docs.pages()] == written


def test_a_count_that_no_longer_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = page(transcript("counts", "$ echo label 2.000 8/8", "label 6.000 8/8"), tmp_path, monkeypatch)
    stale = ["page.md:5: 'label # #/#' was 6 8 8, is 2 8 8"]
    before = file.read_text()
    assert docs.make_page(file, write=False) == stale
    assert file.read_text() == before
    assert docs.make_page(file, write=True) == stale
    assert file.read_text() == before.replace("label 6.000", "label 2.000", 2)
    assert docs.make_page(file, write=True) == []


@pytest.mark.parametrize(
    ("kind", "shown", "holds"),
    [
        ("counts", "label 2.01 8/8", True),  # 1 %, and a tenth of an operation
        ("counts", "label 2.000 7/8", False),
        ("counts within 30 %", "label 2.500 8/8", True),
        ("counts within 10 %", "label 2.500 8/8", False),
        ("exact", "label 2.000 8/8", True),
        ("exact", "label 2.01 8/8", False),
        ("of the day", "label 77 1/1", True),
        ("not made: needs a moon", "nothing", True),
    ],
)
def test_what_holds(
    kind: str, shown: str, holds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = page(transcript(kind, "$ echo label 2.000 8/8", shown), tmp_path, monkeypatch)
    assert (docs.make_page(file, write=True) == []) is holds
    kept = kind.startswith("not made") or (holds and kind != "of the day")
    assert shown in file.read_text() if kept else "\nlabel 2.000 8/8\n" in file.read_text()


def test_rows_that_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order; what is hardly ever touched does not matter, nor do names without figures."""
    now = "$ printf 'b 2.5\\n  of b, f\\na 1.5\\nseldom 0.04\\nnew 3.5\\n'"
    file = page(
        transcript("counts", now, "a 1.5", "b 2.5", "  of b, g", "rare 0.06", "gone 4.5"),
        tmp_path,
        monkeypatch,
    )
    assert docs.make_page(file, write=False) == [
        "page.md:5: 'gone #' was 4.5, is gone",
        "page.md:5: 'new #' is new: 3.5",
    ]


def test_what_was_left_out_is_left_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = "$ printf '%s\\n' head {1..9} 'all 14'"
    file = page(transcript("of the day", now, "head", "…", "all 12"), tmp_path, monkeypatch)
    assert docs.make_page(file, write=True) == []
    assert f"{now}\nhead\n…\nall 14\n```" in file.read_text()
    file = page(transcript("of the day", now, "…", "none 12"), tmp_path, monkeypatch)
    (complaint,) = docs.make_page(file, write=True)
    assert complaint == "page.md:5: its output has no line like 'none 12' any more"


def test_commands_share_a_folder_that_is_made_for_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "<!-- file: a.txt -->\n```toml\nof a file\n```\n\n"
        "<!-- output: exact\n$ cp a.txt b.txt\n-->\n```\n"
        "$ cat c.txt\nas shown\n$ cat b.txt c.txt | tr a \\\n    A\n```\n"
    )
    file = page(text, tmp_path, monkeypatch)
    docs.make_page(file, write=True)
    assert file.read_text().endswith(
        "$ cat b.txt c.txt | tr a \\\n    A\n```\n"
    )  # a command without output shown
    shown = text.replace("    A\n```", "    A\nof A file\nAs shown\n```")
    assert docs.make_page(page(shown, tmp_path, monkeypatch), write=False) == []


def test_a_command_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = page(transcript("counts", "$ no-such-program"), tmp_path, monkeypatch)
    (complaint,) = docs.make_page(file, write=True)
    assert complaint.startswith("page.md:5: `no-such-program` ended with 127: ")


def test_the_page_about_workloads_names_the_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an agent that can load BPF programs, the folders of headers left out."""
    used = set[str]()
    monkeypatch.setattr(compile, "_compile", lambda name, cc, flags, *rest: used.update(flags) or Path())
    compile.agent(workloads.find("open1"), "gcc", ["-lbpf"])
    page = (ROOT / "docs/howto/workloads/write-a-workload.md").read_text()
    named = " ".join(re.findall(r"`(?:gcc )?(-[^`]+)`", page.partition("\nIt runs as root")[0]))
    folders = {"-iquote", *compile.guest_includes()}
    assert set(named.split()) == used - folders - {"-r"}


# Links

MARKDOWN = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("cases/*/README.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "sim/README.md")),
    ]
)


def prose(file: Path) -> str:
    return re.sub(r"^```.*?^```", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(file: Path) -> set[str]:
    """What a link to a heading of the page ends in, as GitHub has it."""
    headings = re.findall(r"^#+ (.*)$", prose(file), re.MULTILINE)
    texts = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


@pytest.mark.parametrize("file", MARKDOWN, ids=of_root)
def test_each_link_leads_somewhere(file: Path) -> None:
    for link in re.findall(r"(?:\]\(|^\[[^]]+\]: )([^)\s]+)", prose(file), re.MULTILINE):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (file.parent / path).resolve() if path else file
        assert target.exists(), link
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), link


def test_each_benchmark_that_a_page_names_exists() -> None:
    named = {path for file in MARKDOWN for path in re.findall(r"\bbenchmarks/[\w./]*\w", file.read_text())}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
    commands = {row[-1].strip("`") for row in table_after("validation/accuracy.md", "| claim |")}
    there = {file.name for folder in ("benchmarks", "tests") for file in (ROOT / folder).rglob("*.py")}
    assert {command for command in commands if command.endswith(".py")} - there == set()


# Lists of what is in the code


def tables_after(page: str, heading: str) -> list[list[list[str]]]:
    """The tables whose header begins so: their rows, as cells."""
    tables: list[list[list[str]]] = []
    lines = iter((ROOT / "docs" / page).read_text().splitlines())
    for line in lines:
        if not line.startswith(heading):
            continue
        next(lines)
        rows = itertools.takewhile(lambda row: row.startswith("|"), lines)
        tables.append([[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows])
    assert all(tables) and tables, f"{page} has no table {heading}"
    return tables


def table_after(page: str, heading: str) -> list[list[str]]:
    """The rows of the first of them."""
    return tables_after(page, heading)[0]


def code_in(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def test_the_command_line_is_as_the_commands_have_it() -> None:
    assert cli_reference.PAGE.read_text() == cli_reference.page(), "run tools/cli_reference.py"


STUDY_TOML = "reference/study-toml.md"


def test_each_key_of_a_study_is_listed() -> None:
    rows = itertools.chain(*tables_after(STUDY_TOML, "| key |"))
    listed = [key.strip("[]") for row in rows for key in code_in(row[0])]
    options = {key for kind in probes.option_kinds() for key in kind.__struct_fields__}
    filled_in = {field for field in Spec.__struct_fields__ if field.endswith("_sha256")}
    wanted = (set(Spec.__struct_fields__) - filled_in - {"options"}) | options
    assert sorted(listed) == sorted(wanted)


@pytest.mark.parametrize(
    ("table", "kind"), [("[[variant]]", Variant), ("[[look]]", Look), ("[simulation]", Simulation)]
)
def test_each_key_of_a_table_of_a_study_is_listed(table: str, kind: type[msgspec.Struct]) -> None:
    rows = table_after(STUDY_TOML, f"| key of `{table}` |")
    assert {key for row in rows for key in code_in(row[0])} == set(kind.__struct_fields__) - {
        "machine_sha256"
    }


def test_each_probe_with_stacks_is_listed_with_its_weights() -> None:
    rows = {code_in(row[0]).pop(): row[2] for row in table_after("howto/share-results.md", "| `--probe` |")}
    sources = {probe.name: probe.stacks for probe in probes.probes() if probe.stacks}
    assert rows.keys() == sources.keys()
    for name, source in sources.items():
        for weight in source.weights[1:]:
            assert f"`--weight {weight}`" in rows[name]


def test_each_format_of_a_check_is_listed() -> None:
    rows = table_after("howto/share-results.md", "| command |")
    (formats,) = (row[1] for row in rows if row[0] == "`check`")
    assert code_in(formats) == gate.FORMATS.keys()


def test_each_kind_of_a_trace_is_listed() -> None:
    text = (ROOT / "docs/reference/schema.md").read_text()
    (kind,) = re.findall(r"^\| `kind` \| string \| \| (`enter`.*) \|$", text, re.MULTILINE)
    assert code_in(kind) == set(trace.KINDS)
    in_trace = {name for row in table_after("reference/trace.md", "| kind |") for name in code_in(row[0])}
    assert in_trace == set(trace.KINDS)


def test_each_rule_of_explain_is_listed() -> None:
    listed = [row[0] for row in table_after("reference/explain-rules.md", "| rule |")]
    assert sorted(listed) == sorted(rule.name for rule in rules.rules())


def test_each_probe_that_loads_a_bpf_program_is_named() -> None:
    (needed_for,) = (
        row[1] for row in table_after("howto/install.md", "| row |") if row[0].startswith("BPF compiler")
    )
    assert code_in(needed_for) == {probe.name for probe in probes.probes() if probe.needs_bpf}


def test_the_sample_of_a_baseline_has_its_keys() -> None:
    text = (ROOT / "docs/howto/ci.md").read_text()
    sample = re.search(r"```toml\n(# A baseline.*?)```", text, re.DOTALL)
    assert sample
    point = BaselinePoint(
        variant="v",
        kernel="k",
        cpus=8,
        tasks=8,
        boots=2,
        memory_mib=8192,
        topology=[1, 1, 8, 1],
        qemu="q",
        recorder="r",
        guest="g",
        lines=[BaselineLine(object="o", writes=1.0, accesses=1.0, functions={"f": 1.0})],
        instructions=BaselineInstructions(total=1.0),
        functions=[BaselineFunction(function="f", instructions=1.0)],
    )
    of = {"workload": "w", "workload_sha256": "0", "mode": "process", "arch": "x86_64", "cgroup": "depth=2"}
    baseline = Baseline(**of, point=[point])  # type: ignore[arg-type]
    written = baselines.as_toml(baseline)
    assert keys_of(sample[1]) == keys_of(written)


def keys_of(baseline: str) -> list[set[str]]:
    """Those before the first point, and those of it."""
    return [set(re.findall(r"^(\w+) =", part, re.MULTILINE)) for part in baseline.split("[[point]]")]


# The book


@pytest.mark.slow
def test_the_book_is_built_without_a_warning(tmp_path: Path) -> None:
    """mkdocs.yml is strict: a page that is in no menu, a link or an anchor that leads nowhere is an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "book")]
    built = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "book/tutorial/first-regression.html").exists()


@pytest.mark.parametrize("name", ["github.yml", "gitlab.yml"])
def test_the_files_for_ci_are_those_on_the_page(name: str) -> None:
    page = (ROOT / "docs/howto/ci.md").read_text()
    file = (ROOT / "docs/howto/ci" / name).read_text()
    assert file in page
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"BIGIRON_VERSION: v{version} #" in file


@pytest.mark.parametrize(
    ("name", "scripts"),
    [
        ("github.yml", lambda file: [step.get("run", "") for step in file["jobs"]["counts"]["steps"]]),
        ("gitlab.yml", lambda file: file["bigiron"]["before_script"] + file["bigiron"]["script"]),
    ],
)
def test_the_files_for_ci_can_be_parsed(name: str, scripts: Callable[[Any], list[str]]) -> None:
    """Neither has run at its forge: the YAML, and the syntax of what the shell gets."""
    commands = "\n".join(scripts(yaml.safe_load((ROOT / "docs/howto/ci" / name).read_text())))
    assert "bigiron check" in commands
    assert 'bigiron" checkout --detach "$BIGIRON_VERSION"' in commands
    checked = subprocess.run(["bash", "-n"], input=commands, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
