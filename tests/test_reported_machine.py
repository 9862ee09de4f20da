"""The machine of a report: its sockets, where the mail does not give their number."""

import re
from pathlib import Path

import pytest
from test_compare import LINE, both, counts, study_of
from test_robot_mail import TEXT, read

from bigiron.errors import UserError
from bigiron.judge import judgement, second_opinion
from bigiron.readers.robot_mail.processor import sockets_of_group
from bigiron.simulator import reported_machine
from bigiron.workloads.of_benchmark import Mapped

XEON = "Intel(R) Xeon(R) CPU"


def described(words: str, group: str = "vm-pattern") -> str:
    """A report of a machine with these words."""
    text = re.sub(r"lkp-skl-[\w-]+", group, TEXT)
    return text.replace("104 threads 2 sockets (Skylake)", words)


def levels(words: str) -> tuple[int, int]:
    """The sockets, and the cores of each, of the machine that is made for the report."""
    machine = read(described(words)).machine
    assert machine
    found = reported_machine.like(machine)
    assert bool(found.assumed) == (machine.sockets is None)
    counts_of = dict(re.findall(r'name = "(\w+)"\ncount = (\d+)', found.toml))
    return int(counts_of["socket"]), int(counts_of["core"])


@pytest.mark.parametrize(
    ("words", "sockets", "cores"),
    [
        (f"72 threads {XEON} E5-2699 v3 @ 2.30GHz", 2, 18),
        (f"48 threads {XEON} E5-2697 v2 @ 2.70GHz", 2, 12),
        (f"40 threads {XEON} E5-2690 v2 @ 3.00GHz", 2, 10),
        (f"64 threads {XEON} E5-4650 0 @ 2.70GHz", 4, 8),
        (f"120 threads {XEON} E7-4890 v2 @ 2.80GHz", 4, 15),
        (f"144 threads {XEON} E7-8890 v3 @ 2.50GHz", 4, 18),
        (f"240 threads {XEON} E7-8890 v2 @ 2.80GHz", 8, 15),
        (f"160 threads {XEON} E7-8890 v4 @ 2.20GHz", 4, 20),
        (f"16 threads {XEON} D-1541 @ 2.10GHz", 1, 8),
        (f"8 threads {XEON} E3-1275 v6 @ 3.80GHz", 1, 4),
        ("16 threads Intel(R) Xeon(R) E-2278G CPU @ 3.40GHz", 1, 8),
        ("16 threads Intel(R) Xeon(R) W-2145 CPU @ 3.70GHz", 1, 8),
        ("8 threads Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz", 1, 4),
        ("16 threads Intel(R) Xeon(R) CPU X5570 @ 2.93GHz", 2, 4),
        ("96 threads Intel(R) Xeon(R) Gold 6252 CPU @ 2.10GHz", 2, 24),
        ("192 threads Intel(R) Xeon(R) Platinum 8260L CPU @ 2.40GHz", 4, 24),
        ("192 threads Intel(R) Xeon(R) Platinum 9242 CPU @ 2.30GHz", 4, 24),
        ("224 threads Intel(R) Xeon(R) Platinum 8380H CPU @ 2.90GHz", 4, 28),
        ("160 threads Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz", 2, 40),
        ("224 threads Intel(R) Xeon(R) Platinum 8480CTDX", 2, 56),
        ("192 threads Intel(R) Xeon(R) 6740E  CPU @ 2.4GHz", 2, 96),
        ("72 threads (Haswell-EP)", 2, 18),
        ("16 threads (Broadwell-DE)", 1, 8),
        ("48 threads (Ivy Bridge)", 2, 12),
        ("96 threads (Ivy Bridge-EX)", 4, 12),
    ],
)
def test_the_processor_implies_the_sockets(words: str, sockets: int, cores: int) -> None:
    assert levels(words) == (sockets, cores)


@pytest.mark.parametrize(
    ("group", "sockets"),
    [
        ("lkp-hsw-ep4", 2),
        ("lkp-ivb-ep01", 2),
        ("lkp-nhm-dp1", 2),
        ("lkp-bdw-de1", 1),
        ("lkp-cfl-e1", 1),
        ("lkp-csl-2ap2", 4),
        ("lkp-skl-fpga01", None),
        ("ivb44", None),
    ],
)
def test_a_group_implies_the_sockets_whatever_the_processor(group: str, sockets: int | None) -> None:
    assert sockets_of_group(group) == sockets
    found = read(described("32 threads Intel(R) Xeon(R) CPU @ 2.30GHz", group)).machine
    assert found and found.sockets == sockets
    given = read(described("32 threads 4 sockets Intel(R) Xeon(R) CPU E5-2690", group)).machine
    assert given and given.sockets == 4


@pytest.mark.parametrize(
    "words",
    [
        "80 threads Intel(R) Xeon(R) Gold 6252 CPU @ 2.10GHz",  # with some cores switched off
        "112 threads Intel(R) Xeon(R) Gold 6348R CPU @ 2.60GHz",  # of another number of cores than a 6348
        "104 threads Skylake",
        "48 threads Intel(R) Xeon(R) Gold 6252 CPU @ 2.10GHz",  # one socket, or two without hyper-threading
        f"32 threads {XEON} E5-4650 0 @ 2.70GHz",
        f"24 threads {XEON} E5-2697 v2 @ 2.70GHz",
        "72 threads Intel(R) Xeon(R) Platinum 8360Y CPU @ 2.40GHz",
        "8 threads Intel(R) Xeon(R) CPU X5570 @ 2.93GHz",
    ],
)
def test_sockets_that_nothing_implies_are_assumed_and_the_reply_says_so(words: str, tmp_path: Path) -> None:
    found = read(described(words))
    assert found.machine and found.machine.sockets is None
    study = study_of(tmp_path / "s", {name: [counts(*both("f", 10, line=LINE))] for name in "ab"})
    nothing = judgement.Judgement("neither", [], 2, 2, 104, (1.0, 1.0), (2.0, 2.0), 1)

    def not_considered(text: str) -> list[str]:
        mail = read(text)
        told = second_opinion.opinion(study, mail, Mapped("open1"), second_opinion.shape(mail), nothing)
        return [one for one in told.not_considered if "sockets" in one]

    (note,) = not_considered(described(words))
    assert note.startswith("the report's number of sockets, which it does not give: here it is assumed (2 so")
    assert re.search(r"\(2 sockets, as [a-z0-9-]*-x2 has|\(2 sockets, as (x86-2s has|most machines)", note)
    assert not_considered(TEXT) == []


def test_an_odd_number_of_cpus_has_not_two_sockets() -> None:
    found = read(described(f"71 threads {XEON} E5-2699 v3 @ 2.30GHz")).machine
    assert found and found.sockets is None
    with pytest.raises(UserError, match="71 CPUs do not divide among 2 sockets"):
        reported_machine.like(found)


@pytest.mark.parametrize(
    ("words", "group", "code_name", "called"),
    [
        ("20 threads 1 sockets (Commit Lake)", "lkp-cml-d02", "Comet Lake", r"\(Commit Lake\)"),
        ("20 threads 1 sockets (Comet Lake)", "lkp-cml-d02", "Comet Lake", r"\(Comet Lake\)"),
        ("20 threads 1 sockets", "lkp-cml-d02", "Comet Lake", "Comet Lake"),
        ("16 threads", "lkp-rkl-d01", "Rocket Lake", "Rocket Lake"),
    ],
)
def test_nothing_is_predicted_for_a_desktop_of_which_there_is_no_file(
    words: str, group: str, code_name: str, called: str
) -> None:
    found = read(described(words, group))
    assert found.machine and (found.machine.sockets, found.machine.code_name) == (1, code_name)
    assert found.figures == read(TEXT).figures
    shaped = second_opinion.shape(found)
    assert re.fullmatch(f"no machine file is like {called}", shaped.why_not)


def test_a_table_of_another_desktop_is_left_out() -> None:
    found = read(described("20 threads 1 sockets (Commit Lake)", "lkp-rkl-d01"))
    assert found.figures == []
    assert "it is of another machine (lkp-rkl-d01: Rocket Lake)" in found.notes[0]
