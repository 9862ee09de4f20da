"""The gate: what a baseline records, what passes and what fails, what is refused, how each format says it."""

import json
import re
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from conftest import bigiron, measured
from hypothesis import given
from hypothesis import strategies as st

from bigiron.analysis.comparison.limits import INSTRUCTIONS_TOLERANCE, LimitedCount, Tolerance
from bigiron.analysis.lines.matching import SharedLine
from bigiron.errors import UserError
from bigiron.gate import baseline as baselines
from bigiron.gate import check_instructions, check_lines
from bigiron.gate.baseline import Baseline
from bigiron.gate.check_lines import (
    BaselineFunction,
    BaselineInstructions,
    BaselineLine,
    BaselinePoint,
    CheckedPoint,
)
from bigiron.report import gate
from bigiron.report.formats import comment, junit, ktap

OLD, NEW = "debian/6.1", "debian/6.12"
PROBES = ("--probe", "conflicts,instructions")
LABEL = "apparmor_file_free_security"
TIGHT = Tolerance(0.05, 0.01)


def line(object: str, writes: float, accesses: float, even: bool = True, **functions: float) -> SharedLine:
    """One that all CPUs access as often, unless said."""
    functions = functions or {"f": accesses}
    return SharedLine(object, functions, writes, accesses, 8, 8, false_sharing=False, even=even)


def point(*lines: BaselineLine, variant: str = "v", cpus: int = 8) -> BaselinePoint:
    return BaselinePoint(variant=variant, cpus=cpus, tasks=cpus, lines=list(lines))


def known(object: str, writes: float, accesses: float, **fields: Any) -> BaselineLine:
    functions = fields.pop("functions", {"f": accesses})
    return BaselineLine(object=object, writes=writes, accesses=accesses, functions=functions, **fields)


def worse(was: BaselinePoint, *repetitions: list[SharedLine], tolerance: Tolerance = TIGHT) -> list[str]:
    found = check_lines.check(was, repetitions, tolerance)
    return [finding.name.partition(":")[0] for finding in found if finding.worse]


# What passes and what fails

LABEL_LINE = known("aa_label", 2.0, 2.0)


@pytest.mark.parametrize(
    ("now", "fails"),
    [
        (line("aa_label", 2.0, 2.0), False),
        (line("aa_label", 1.0, 1.0), False),  # less is no conflict
        (line("aa_label", 2.07, 2.07), False),  # 0.05 and 1 %
        (line("aa_label", 2.0, 2.08), True),
        (line("aa_label", 2.08, 2.08), True),
        (line("aa_label", 0.0, 2.0), False),
        (line("other", 0.2, 0.2), True),  # new
        (line("other", 0.0, 0.1), False),  # a baseline has nothing of lines this small
    ],
)
def test_more_than_the_tolerance_fails(now: SharedLine, fails: bool) -> None:
    assert bool(worse(point(LABEL_LINE), [now])) is fails


def by_boots(before: list[float], now: list[float], even: bool = False) -> list[LimitedCount]:
    """What is found of a line that has these accesses in each boot, and in the baseline's."""
    columns = [[line("struct page", count, count, even=even)] for count in before]
    was = BaselinePoint(variant="v", cpus=8, tasks=8, boots=len(before), lines=check_lines.known(columns))
    return check_lines.check(
        was, [[line("struct page", count, count, even=even)] for count in now], Tolerance()
    )


@pytest.mark.parametrize(
    ("before", "now", "worse", "may_be"),
    [
        ([2.0], [9.0], False, True),  # one boot does not tell
        ([2.0, 2.1], [9.0, 9.1], True, False),
        ([2.0, 3.0], [9.0, 6.5], False, True),
        ([2.0, 5.0], [5.0, 3.0], False, False),
    ],
)
def test_what_chance_decides_is_compared_with_the_spread_of_boots(
    before: list[float], now: list[float], worse: bool, may_be: bool
) -> None:
    (found,) = by_boots(before, now)
    assert (found.worse, found.may_be_worse) == (worse, may_be)
    (found,) = by_boots(before[:1], now[:1], even=True)
    assert found.worse is (now[0] > before[0] * 1.01 + 0.5)


def test_which_of_one_kind_it_is_may_change() -> None:
    was = point(known("struct inode.i_size", 2.0, 2.0, functions={"a": 2.0}))
    another = replace(line("struct inode.i_mtime_sec", 2.0, 2.0, b=2.0), movable=True)
    assert not worse(was, [another])
    assert worse(was, [another, line("struct inode.i_size", 2.0, 2.0, a=2.0)])


def test_a_baseline_has_what_chance_decides_boot_by_boot() -> None:
    (uneven,) = check_lines.known([[line("a", 1.0, 1.0, even=False)], [line("a", 1.0, 2.0, even=False)]])
    assert (uneven.boot_writes, uneven.boot_accesses) == ([1.0, 1.0], [1.0, 2.0])
    (even,) = check_lines.known([[line("a", 1.0, 1.0)], [line("a", 1.0, 1.0)]])
    assert not even.boot_writes


def test_by_default_one_access_more_per_operation_fails_and_chance_does_not() -> None:
    for now, fails in (line("new", 1.0, 1.0), True), (line("new", 0.5, 0.5), False):
        assert bool(worse(point(LABEL_LINE), [now], tolerance=Tolerance())) is fails
    for now, fails in (line("aa_label", 3.0, 3.0), True), (line("aa_label", 2.5, 2.5), False):
        assert bool(worse(point(LABEL_LINE), [now], tolerance=Tolerance())) is fails


def test_a_new_write_to_a_line_that_was_only_read_fails() -> None:
    assert worse(point(known("inode", 0.0, 4.0)), [line("inode", 1.0, 4.0)]) == ["inode"]


def test_reads_of_a_new_line_count_as_far_as_writes_can_disturb_them() -> None:
    """Eight CPUs: a write makes each fetch the line once."""
    assert not worse(point(), [line("psi_system.avgs_work", 0.001, 2.1)])
    assert not worse(
        point(), [line("psi_system.avgs_work", 0.001, 2.1)], [line("psi_system.avgs_work", 1, 3)]
    )
    (found,) = check_lines.check(point(), [[line("psi_system.avgs_work", 0.2, 2.1)]], TIGHT)
    assert found.worse and found.after == (0.2, 1.6)
    assert found.by == "touched by f; 2.100 accesses including those that no write disturbs"


def test_a_line_can_have_a_tolerance_of_its_own() -> None:
    noisy = known("struct page", 0.1, 0.2, tolerance=1.0)
    assert not worse(point(noisy), [line("struct page", 0.5, 1.1)])
    assert worse(point(noisy), [line("struct page", 0.5, 1.3)])


def test_what_allocators_keep_of_pages_is_one_line_and_may_double() -> None:
    was = [
        line("struct slab.counters (filp)", 2.0, 9.0),
        line("struct page.lru (free page)", 1.0, 3.0, g=3.0),
    ]
    (recorded,) = check_lines.known([was])
    assert (recorded.object, recorded.writes, recorded.accesses) == (check_lines.ALLOCATORS, 3, 12)
    for accesses, fails in (24.0, False), (26.0, True):
        now = [line("struct kmem_cache_node.partial (filp)", 3.0, accesses)]
        assert bool(worse(point(recorded), now)) is fails
    cache = [line("struct folio._refcount (page cache)", 2.0, 2.0)]
    assert check_lines.known([cache])[0].object == "struct folio._refcount (page cache)"


def test_a_regression_is_in_every_repetition() -> None:
    usual, once = line("struct page", 0.1, 0.1), line("struct page", 0.9, 0.9)
    assert not worse(point(), [once], [], [once])
    assert not worse(point(known("struct page", 0.1, 0.1)), [once], [usual])
    assert worse(point(known("struct page", 0.1, 0.1)), [once], [once])
    assert not worse(point(known("struct page", 0.1, 0.3, most_writes=0.9, most_accesses=0.9)), [once])


def test_the_same_line_is_known_by_its_functions_and_not_by_its_order() -> None:
    was = point(
        known("page or slab object", 2.0, 2.0, functions={"get": 1.0, "put": 1.0}),
        known("page or slab object", 6.0, 6.0, functions={"lock": 3.0, "unlock": 3.0}),
    )
    swapped = [
        line("page or slab object", 6.0, 6.0, unlock=3.0, lock=3.0),
        line("page or slab object", 2.0, 2.0, put=1.0, get=1.0),
    ]
    assert not worse(was, swapped)
    assert worse(was, [swapped[0], line("page or slab object", 6.0, 6.0, put=3.0, get=3.0)])


def test_the_largest_increase_comes_first() -> None:
    now = [line("a", 1.5, 1.5, a=1.0), line("b", 5.0, 5.0, b=1.0), line("aa_label", 3.0, 3.0)]
    assert worse(point(LABEL_LINE), now) == ["b", "a", "aa_label"]


@given(st.lists(st.floats(0.06, 100), max_size=6), st.integers(1, 3))
def test_what_was_recorded_passes(counts: list[float], repetitions: int) -> None:
    lines = [line(f"object {number}", count / 2, count) for number, count in enumerate(counts)]
    recorded = check_lines.known([lines] * repetitions)
    assert len(recorded) == len(lines)
    assert not worse(point(*recorded), *[lines] * repetitions)


# What is recorded


def test_a_baseline_has_the_mean_and_what_is_most() -> None:
    first, second = [line("a", 1.0, 2.0), line("b", 0.0, 0.04, g=1.0)], [line("a", 3.0, 4.0)]
    (recorded,) = check_lines.known([first, second])
    assert (recorded.writes, recorded.accesses) == (2, 3)
    assert (recorded.most_writes, recorded.most_accesses) == (3, 4)


def test_what_has_not_changed_stays_as_it_was() -> None:
    was = [
        known("a", 2.0, 2.0, tolerance=0.5),
        known("b", 1.0, 1.0, functions={"b": 1.0}),
        known("gone", 1.0, 1.0, functions={"gone": 1.0}),
        known("hardly there", 0.06, 0.06, functions={"hardly": 1.0}),
    ]
    now = [
        known("a", 2.3, 2.4),
        known("b", 1.5, 1.5, functions={"b": 1.0}),
        known("new", 1.0, 1.0, functions={"new": 1.0}),
        known("hardly here", 0.06, 0.06, functions={"here": 1.0}),
    ]
    assert check_lines.renewed(was, now, TIGHT) == [was[0], now[1], was[3], now[2]]
    assert check_lines.renewed(was, was, TIGHT) == sorted(was, key=lambda line: line.object)


# Instructions


WORK = {"dput": 50.0, "d_alloc": 70.0, "the rest": 2880.0}


def grown(*repetitions: dict[str, float], tolerance: Tolerance = INSTRUCTIONS_TOLERANCE) -> LimitedCount:
    return check_instructions.check(
        check_instructions.known([WORK]),
        check_instructions.functions([WORK]),
        [WORK | now for now in repetitions],
        tolerance,
    )


def test_more_instructions_fail_and_the_functions_are_named() -> None:
    found = grown({"d_alloc": 130.0, "kmem_cache_alloc_noprof": 40.0, "dput": 49.0})
    assert found.worse
    assert found.words == "3099.000 instructions per operation; the baseline has 3000.000 (3050.000 passes)"
    assert found.by == "more in d_alloc +60.000, kmem_cache_alloc_noprof +40.000"


@pytest.mark.parametrize(
    ("repetitions", "fails"),
    [
        ([{"dput": 100.0}], False),  # 20 and 1 %
        ([{"dput": 101.0}], True),
        ([{"new": 51.0}], True),
        ([{"dput": 101.0}, {}], False),  # a regression is in every repetition
        ([{"dput": 101.0}, {"d_alloc": 130.0}], True),  # wherever it is
        ([{"dput_renamed": 50.0, "dput": 0.0}], False),
        ([{"dput": 0.0}], False),
    ],
)
def test_more_than_the_work_s_tolerance_fails(repetitions: list[dict[str, float]], fails: bool) -> None:
    assert grown(*repetitions).worse is fails


def test_work_that_has_not_changed_stays_as_it_was() -> None:
    was = BaselineInstructions(total=3000.0, most=3010.0, tolerance=100.0)
    assert check_instructions.renewed(was, BaselineInstructions(total=3120.0), INSTRUCTIONS_TOLERANCE) is was
    assert check_instructions.renewed(
        was, BaselineInstructions(total=3200.0), INSTRUCTIONS_TOLERANCE
    ) == BaselineInstructions(total=3200.0, tolerance=100.0)


# The file

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
counts = st.integers(0, 10**6).map(lambda thousandths: thousandths / 1000)
knowns = st.builds(
    BaselineLine,
    object=texts,
    writes=counts,
    accesses=counts,
    most_writes=counts,
    most_accesses=counts,
    tolerance=st.none() | counts,
    functions=st.dictionaries(texts, counts, max_size=3),
)
works = st.builds(BaselineInstructions, total=counts, most=counts, tolerance=st.none() | counts)
functions = st.builds(BaselineFunction, function=texts, instructions=counts)
points = st.builds(
    BaselinePoint,
    variant=texts,
    kernel=texts,
    cpus=st.integers(1, 1024),
    tasks=st.none() | st.integers(1, 9999),
    clock_slower=st.sampled_from([1, 64]),
    topology=st.sampled_from([[], [2, 2, 4, 1]]),
    recorder=texts,
    lines=st.lists(knowns, max_size=3),
    instructions=st.none() | works,
    functions=st.lists(functions, max_size=3),
)
files = st.builds(
    Baseline,
    format=st.just(1),
    workload=texts,
    workload_sha256=texts,
    mode=texts,
    arch=texts,
    tolerance=counts,
    relative_tolerance=counts,
    instructions_tolerance=counts,
    relative_instructions_tolerance=counts,
    probes=st.lists(st.sampled_from(check_lines.PROBES), min_size=1, max_size=2),
    point=st.lists(points, max_size=3),
)


@given(files)
def test_a_file_says_what_was_written(baseline: Baseline) -> None:
    written = baselines.as_toml(baseline)
    assert msgspec.toml.decode(written, type=Baseline) == baseline
    assert tomllib.loads(written)["workload"] == baseline.workload


def test_each_shared_line_is_one_line_of_the_file(tmp_path: Path) -> None:
    baseline = Baseline(
        workload="open1", workload_sha256="0", mode="process", arch="x86_64", point=[point(LABEL_LINE)]
    )
    text = baselines.as_toml(baseline)
    assert (
        '    { object = "aa_label", writes = 2.000, accesses = 2.000, functions = { f = 2.000 } },\n' in text
    )
    baselines.write(tmp_path / "b.toml", baseline)
    assert baselines.read(tmp_path / "b.toml") == baseline
    assert [path.name for path in tmp_path.iterdir()] == ["b.toml"]


BARE = b"workload = ''\nworkload_sha256 = ''\nmode = ''\narch = ''\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (BARE + b"format = 1\n", "has format 1"),
        (b"nonsense", "is not a baseline"),
        (b"workload = 'open1'\n", "is not a baseline: Object missing required field"),
        (b"\xff\xfe", "is not a baseline"),
        (BARE + b"probes = ['locks']\n", r"is not a baseline: Invalid enum value 'locks' - at `probes\[0\]`"),
        (BARE + b"probes = []\n", "is not a baseline: Expected `array` of length >= 1 - at `probes`"),
        (BARE + b"[[point]]\nvariant = ''\ncpus = 1\nboots = -1\n", "Expected `int` >= 1"),
        (BARE + b"[[point]]\nvariant = ''\ncpus = 1\nboots = 1000000000000\n", "Expected `int` <= 1000"),
        (
            BARE
            + b"[[point]]\nvariant = ''\ncpus = 1\nlines = [{ object = '', writes = 1.0, accesses = 1.0, "
            b"functions = {}, boot_writes = [1.0], boot_accesses = [] }]\n",
            "has not as many boot_writes as boot_accesses",
        ),
        (None, "cannot read"),
    ],
)
def test_what_is_no_baseline_is_refused(content: bytes | None, words: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "b.toml").write_bytes(content)
    with pytest.raises(UserError, match=words):
        baselines.read(tmp_path / "b.toml")


# The formats

NASTY = 'a<b> & "c" # d\x07\u0000'
FOUND = LimitedCount(NASTY, ("writes", "accesses"), None, (0.1, 0.1), (1.0, 2.0), "touched by f<&>, g")
CHECKED = [
    CheckedPoint("v, 8 CPUs, 8 tasks", "v, 8 CPUs, 8 tasks", [FOUND, replace(FOUND, after=(0.0, 0.0))]),
    CheckedPoint("v, 4 CPUs, 4 tasks", "v, 4 CPUs, 4 tasks", []),
    CheckedPoint("w, 8 CPUs, 8 tasks", "w, 8 CPUs, 8 tasks", [], "not in the study"),
]


def test_ktap_is_as_the_kernel_documents_it() -> None:
    lines = ktap.as_ktap("open1", CHECKED).splitlines()
    assert lines[:4] == ["KTAP version 1", "1..3", "  KTAP version 1", "  1..2"]
    results = [text for text in lines if re.match(" *(not )?ok", text)]
    assert [re.match(r" *((?:not )?ok \d+)", text)[1] for text in results] == [  # type: ignore[index]
        "not ok 1", "ok 2", "not ok 1", "ok 2", "ok 3",
    ]  # fmt: skip
    assert results[-1] == "ok 3 open1, w, 8 CPUs, 8 tasks # SKIP not in the study"
    for text in lines:
        assert re.fullmatch(
            r"KTAP version 1|1\.\.\d+|(not )?ok \d+ [^#]+( # SKIP [^#]+)?|# [^#]+", text.strip()
        ), text


def test_junit_is_well_formed_whatever_the_names() -> None:
    root = ElementTree.fromstring(junit.as_junit("open1", CHECKED))
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("3", "1", "1")
    assert [suite.get("tests") for suite in root] == ["2", "0", "1"]
    failed, passed = root[0]
    assert 'a<b> & "c" # d??' in str(failed.get("name"))
    assert failed[0].tag == "failure" and "f<&>, g" in str(failed[0].text)
    assert len(passed) == 0
    assert root[2][0][0].tag == "skipped"


@given(texts)
def test_any_name_can_be_written_in_xml(name: str) -> None:
    ElementTree.fromstring(junit.as_junit(name, [CheckedPoint(name, name, [replace(FOUND, name=name)])]))


def test_text_names_the_line_and_the_functions_that_touch_it() -> None:
    text = gate.as_text("open1", CHECKED)
    assert "worse   open1, v, 8 CPUs, 8 tasks: 1 of 2 counts" in text
    assert "1.000 writes, 2.000 accesses per operation; not in the baseline" in text
    assert "f<&>, g" in text
    assert "skipped open1, w, 8 CPUs, 8 tasks: not in the study" in text


def only(name: str, left_out: str, worse: bool = False) -> CheckedPoint:
    found = LimitedCount(name, ("u",), (1.0,), (1.5,), (9.0 if worse else 1.0,), "")
    return CheckedPoint(
        "v, 8 CPUs, 8 tasks", "v, 8 CPUs, 8 tasks", [found], left_out={left_out: "the baseline has none"}
    )


SKIPPED = CheckedPoint("w, 8 CPUs, 8 tasks", "w, 8 CPUs, 8 tasks", [], "not in the study")
BOTH = CheckedPoint("v, 4 CPUs, 4 tasks", "v, 4 CPUs, 4 tasks", [])


@pytest.mark.parametrize(
    ("checked", "verdict"),
    [
        ([BOTH], "has no more conflicts and no more instructions than is allowed"),
        ([only("label", "instructions")], "has no more conflicts than is allowed; instructions not compared"),
        (
            [only("instructions", "conflicts")],
            "has no more instructions than is allowed; conflicts not compared",
        ),
        (
            [BOTH, only("a", "instructions")],
            "has no more conflicts than is allowed; instructions not compared",
        ),
        (
            [BOTH, SKIPPED],
            "has no more conflicts and no more instructions than is allowed; 1 of 2 points not checked",
        ),
        (
            [only("instructions", "conflicts"), only("a", "instructions")],
            "conflicts not compared; instructions not compared",
        ),
    ],
)
def test_a_comment_claims_no_more_than_was_compared(checked: list[CheckedPoint], verdict: str) -> None:
    assert comment.as_comment("open1", checked).splitlines()[0] == f"**bigiron: open1 {verdict}**"


def test_each_format_says_what_was_not_compared() -> None:
    checked = [only("label", "instructions")]
    assert gate.as_text("open1", checked) == (
        "ok      open1, v, 8 CPUs, 8 tasks: 1 count; instructions not compared (the baseline has none)\n"
    )
    assert (
        "- v, 8 CPUs, 8 tasks: 0 counts of 1 worse; instructions not compared (the baseline has none)\n"
        in (comment.as_comment("open1", checked))
    )
    assert "  1..2\n  ok 1 label\n  ok 2 instructions # SKIP not compared: the baseline has none\n" in (
        ktap.as_ktap("open1", checked)
    )
    root = ElementTree.fromstring(junit.as_junit("open1", checked))
    assert (root.get("tests"), root.get("skipped")) == ("2", "1")
    (left_out,) = root.findall(".//testcase[@name='instructions']/skipped")
    assert left_out.get("message") == "not compared: the baseline has none"
    (at,) = json.loads(gate.as_json("open1", checked))["points"]
    assert at["not_compared"] == {"instructions": "the baseline has none"}


# A real kernel


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """open1 on 2 CPUs: on the kernel that writes AppArmor's label twice an operation, and six times."""
    folder = tmp_path_factory.mktemp("check")
    for kernel in OLD, NEW:
        measured("open1", "--kernel", kernel, "--cpus", "2", *PROBES, "-o", folder / kernel.replace("/", "-"))
    return {kernel: folder / kernel.replace("/", "-") for kernel in (OLD, NEW)}


@pytest.fixture
def baseline(studies: dict[str, Path], tmp_path: Path) -> Path:
    answer = bigiron("check", studies[NEW], "--record", tmp_path / "open1.toml")
    assert (answer.status, answer.err) == (0, "")
    return tmp_path / "open1.toml"


def test_a_regression_fails_and_is_named(studies: dict[str, Path], baseline: Path) -> None:
    answer = bigiron("check", studies[OLD], "--baseline", baseline)
    assert (answer.status, answer.err) == (1, "")
    assert f"against {NEW}, 2 CPUs, 2 tasks" in answer.out
    assert "6.000 writes, 6.000 accesses per operation; the baseline has 2.000 and 2.000" in answer.out
    assert LABEL in answer.out
    assert bigiron("check", studies[OLD], "--baseline", baseline, "--format", "ktap").status == 1
    xml = bigiron("check", studies[OLD], "--baseline", baseline, "--format", "junit").out
    assert ElementTree.fromstring(xml).find(".//failure") is not None


def test_what_a_baseline_does_not_have_is_not_reported_as_equal(
    studies: dict[str, Path], baseline: Path, tmp_path: Path
) -> None:
    of_lines, without = tmp_path / "of lines.toml", "; instructions not compared (the baseline has none)\n"
    of_lines.write_text(baseline.read_text().replace('["conflicts", "instructions"]', '["conflicts"]'))
    assert bigiron("check", studies[NEW], "--baseline", of_lines).out.endswith(f": 1 count{without}")
    emptied = tmp_path / "emptied.toml"
    emptied.write_text(re.sub("\ninstructions = .*", "", baseline.read_text()))
    assert bigiron("check", studies[NEW], "--baseline", emptied).out.endswith(f": 1 count{without}")


def test_another_run_of_the_same_passes(baseline: Path, tmp_path: Path) -> None:
    measured("open1", "--kernel", NEW, "--cpus", "2", *PROBES, "-o", tmp_path / "again")
    answer = bigiron("check", tmp_path / "again", "--baseline", baseline)
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith("ok ")
    written = baseline.read_text()
    assert "unchanged" in bigiron("check", tmp_path / "again", "--record", baseline).out
    assert baseline.read_text() == written


def test_a_baseline_has_no_address_and_one_line_for_the_label(baseline: Path) -> None:
    text = baseline.read_text()
    assert not re.search(r"0x[0-9a-f]{8,}|ffff[0-9a-f]{8}", text)
    (label,) = [row for row in text.splitlines() if "object = " in row and LABEL in row]
    assert "writes = 2.000, accesses = 2.000" in label


def test_other_counts_of_cpus_and_other_workloads_are_refused(
    studies: dict[str, Path], baseline: Path, open1: Path, tmp_path: Path
) -> None:
    eight = bigiron("check", open1, "--baseline", baseline)
    assert (eight.status, "has no counts of" in eight.complaint) == (2, True)
    for was, other, words in (
        (
            'workload = "open1"',
            'workload = "open2"',
            "was recorded with workload open2, the study with open1",
        ),
        ('workload_sha256 = "', 'workload_sha256 = "0', "another version of workload open1"),
        ('mode = "process"', 'mode = "thread"', "was recorded with mode thread"),
        ("format = 2", "format = 7", "has format 7"),
    ):
        changed = tmp_path / "changed.toml"
        changed.write_text(baseline.read_text().replace(was, other))
        answer = bigiron("check", studies[NEW], "--baseline", changed)
        assert answer.status == 2
        assert words in answer.complaint
    answer = bigiron("check", studies[NEW], "--record", changed)
    assert answer.status == 2, "a file that is not understood is not overwritten"


def test_counts_of_a_slowed_clock_are_compared_only_with_their_like(
    studies: dict[str, Path], baseline: Path, tmp_path: Path
) -> None:
    slowed = tmp_path / "slowed"
    shutil.copytree(studies[NEW], slowed)
    (cell,) = slowed.glob("cells/*/cell.json")
    record = json.loads(cell.read_text())
    record["environment"]["clock_slower"] = 64
    cell.write_text(json.dumps(record))
    refused = bigiron("check", slowed, "--baseline", baseline)
    assert refused.status == 2
    assert "was recorded with clock_slower 1, the study with 64" in refused.complaint
    assert bigiron("check", slowed, "--record", tmp_path / "slowed.toml").status == 0
    assert bigiron("check", slowed, "--baseline", tmp_path / "slowed.toml").status == 0
    assert bigiron("check", studies[NEW], "--baseline", tmp_path / "slowed.toml").status == 2


@pytest.mark.parametrize(
    ("name", "now", "words"),
    [
        ("nodes", 2, "with sockets, nodes, cores and threads [1, 1, "),
        ("qemu", "another", "the study with another"),
        ("recorder", "another", "the study with another"),
    ],
)
def test_counts_of_another_recorder_or_machine_are_not_compared(
    name: str, now: object, words: str, studies: dict[str, Path], baseline: Path, tmp_path: Path
) -> None:
    study = tmp_path / "s"
    shutil.copytree(studies[NEW], study)
    (cell,) = study.glob("cells/*/cell.json")
    record = json.loads(cell.read_text())
    record["environment"][name] = now
    cell.write_text(json.dumps(record))
    answer = bigiron("check", study, "--baseline", baseline)
    assert (answer.status, words in answer.complaint) == (2, True), answer
    older = re.sub(r"^(topology|qemu|recorder) = .*\n", "", baseline.read_text(), flags=re.MULTILINE)
    (tmp_path / "older.toml").write_text(older)
    assert bigiron("check", study, "--baseline", tmp_path / "older.toml").status == 0


def test_recording_keeps_the_points_that_a_study_does_not_have(
    studies: dict[str, Path], baseline: Path, tmp_path: Path
) -> None:
    of_eight = baseline.read_text().replace("cpus = 2\ntasks = 2\n", "cpus = 8\ntasks = 8\n")
    baseline.write_text(of_eight.replace('debian/6.12"\nkernel', 'another"\nkernel'))
    answer = bigiron("check", studies[NEW], "--record", baseline)
    assert answer.out.endswith(" at 2 points, 1 of them not in the study\n"), answer
    assert [point.place for point in baselines.read(baseline).point] == [
        f"{NEW}, 2 CPUs, 2 tasks", f"{NEW}, 8 CPUs, 8 tasks"
    ]  # fmt: skip
    for was, now, words in (
        ('mode = "process"', 'mode = "thread"', "was recorded with mode thread, the study with process"),
        ('["conflicts", "instructions"]', '["conflicts"]', f"has {NEW}, 8 CPUs, 8 tasks, which the study"),
    ):
        (tmp_path / "other.toml").write_text(baseline.read_text().replace(was, now))
        refused = bigiron("check", studies[NEW], "--record", tmp_path / "other.toml")
        assert (refused.status, words in refused.complaint) == (2, True), refused


def test_user_memory_is_not_compared_with_a_history(studies: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(studies[NEW], tmp_path / "s")
    file = tmp_path / "s/study.toml"
    file.write_text(file.read_text().replace('scope = "kernel"', 'scope = "user"'))
    answer = bigiron("check", tmp_path / "s", "--history", tmp_path)
    assert (answer.status, "has scope user" in answer.complaint) == (2, True), answer


def test_a_study_with_a_missing_cell_is_refused(
    studies: dict[str, Path], baseline: Path, tmp_path: Path
) -> None:
    shutil.copytree(studies[NEW], tmp_path / "s")
    (cell,) = (tmp_path / "s" / "cells").iterdir()
    shutil.rmtree(cell)
    answer = bigiron("check", tmp_path / "s", "--baseline", baseline)
    assert (answer.status, "is not measured yet" in answer.complaint) == (2, True)


def test_a_study_without_a_probe_of_the_baseline_s_is_refused(
    studies: dict[str, Path], baseline: Path, open1: Path, tmp_path: Path
) -> None:
    """The label is not all that open1 does more of on 6.1, so either probe alone fails the check."""
    strict = baseline.read_text().replace(
        "relative_instructions_tolerance = 0.010", "relative_instructions_tolerance = 0.0"
    )
    for probe in "conflicts", "instructions":
        only = strict.replace('probes = ["conflicts", "instructions"]', f'probes = ["{probe}"]')
        (tmp_path / "only.toml").write_text(only)
        assert bigiron("check", studies[OLD], "--baseline", tmp_path / "only.toml").status == 1
        assert bigiron("check", studies[NEW], "--baseline", tmp_path / "only.toml").status == 0
    asked = baseline.read_text().replace('probes = ["conflicts", "instructions"]', 'probes = ["throughput"]')
    (tmp_path / "only.toml").write_text(asked)
    answer = bigiron("check", studies[NEW], "--baseline", tmp_path / "only.toml")
    assert (answer.status, "probe" in answer.complaint) == (2, True)


def test_either_check_or_record(studies: dict[str, Path], baseline: Path) -> None:
    assert bigiron("check", studies[NEW]).status == 2
    both = bigiron("check", studies[NEW], "--baseline", baseline, "--record", baseline)
    assert (both.status, "one of --baseline FILE" in both.complaint) == (2, True)
