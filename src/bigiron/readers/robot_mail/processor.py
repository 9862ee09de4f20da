"""What the names of a processor and of a group of test machines say: its code name, and its sockets."""

import re

_OF_GROUP = re.compile(r"(?:(?P<number>[1-8])(?P<kind>sp|ep|ex|ap)|(?P<alone>ep|dp|de|d|e))\d+")
"""The part of the name of a test machine's group that says its kind: 2sp7, ep4."""
_ALONE = {"ep": 2, "dp": 2, "de": 1, "d": 1, "e": 1}
"""Sockets of the kinds whose groups have no number; de, d and e are small servers and desktops."""

_CODES = {
    "nhm": "Nehalem",
    "nex": "Nehalem",
    "wsm": "Westmere",
    "snb": "Sandy Bridge",
    "ivb": "Ivy Bridge",
    "hsw": "Haswell",
    "hsx": "Haswell",
    "bdw": "Broadwell",
    "knl": "Knights Landing",
    "knm": "Knights Mill",
    "skl": "Skylake",
    "kbl": "Kaby Lake",
    "cfl": "Coffee Lake",
    "cml": "Comet Lake",
    "csl": "Cascade Lake",
    "cpl": "Cooper Lake",
    "cpx": "Cooper Lake",
    "icl": "Ice Lake",
    "tgl": "Tiger Lake",
    "rkl": "Rocket Lake",
    "adl": "Alder Lake",
    "rpl": "Raptor Lake",
    "spr": "Sapphire Rapids",
    "emr": "Emerald Rapids",
    "gnr": "Granite Rapids",
    "srf": "Sierra Forest",
    "cwf": "Clearwater Forest",
}
"""Code names by the abbreviation in the name of a test machine's group, such as lkp-csl-2sp4."""

_MISSPELT = {"commit lake": "comet lake"}  # by the robot

_SOCKETS = (
    (r"\be5-4\d{3}|\be7-4\d{3}", 4),
    (r"\be5-2\d{3}|\be7-2\d{3}|\b[elwx]5[56]\d\d\b", 2),
    (r"\be5-1\d{3}|\be3-1\d{3}|\be-2\d{3}|\bd-[12]\d{3}|\bw-\d{4}|\bw[3579]-\d{4}", 1),
    (r"\bcore\(tm\)|\bi[3579]-\d{3}|\bpentium|\bceleron|\batom\b|\bryzen|\bepyc \w{4}p\b", 1),
    (r"\bphi\b|knights ", 1),
    (r"bridge-ep\b|well-ep\b|westmere-ep\b|nehalem-ep\b", 2),
    (r"well-de\b", 1),
)
"""Sockets of the machines that processors are made for, by model number or code name; the first counts."""

_CORES = {
    4: "x5550 x5560 x5570",
    6: "x5650 x5660 x5670 x5680 x5690",
    8: "e5-2660 e5-2670 e5-2680 e5-2690 e5-4640 e5-4650",
    10: "e5-2690v2 e5-2680v2 e5-4640v2 e5-4650v2 e7-8870",
    12: "e5-2697v2 e5-2695v2 e5-4650v3 5118 6226",
    14: "e5-2690v4 e5-2680v4 e5-4650v4 5120 6132",
    15: "e7-8890v2 e7-8880v2 e7-8895v2",
    16: "6130 6142 5218 6242 6328H 6326 6346",
    18: "e5-2699v3 e5-2695v4 e7-8890v3 e7-8880v3 e7-8895v3 e7-8870v3 6139 6140 6154 6240 6254 5318H",
    20: "e7-8870v4 6138 6148 6230 6248 5320H",
    22: "e5-2696v4 e5-2699v4 e7-8880v4 6152 6238",
    24: "e7-8890v4 e7-8894v4 8160 8168 8260 8268 6252 8360H 6348H 6342 9242",
    26: "8164 8170 8270",
    28: "8176 8180 8276 8280 8376H 8380H 8380HL 6330 6348 9282",
    32: "6338 8352Y 8358 8362 6430 6438 6448Y",
    36: "8360Y",
    38: "8368",
    40: "8380 8460Y",
    48: "8468 8558 8568Y",
    52: "8470",
    56: "8480",
    60: "8490H 8580",
    64: "8592 6710E",
    96: "6731E 6740E 6952P 6972P",
    112: "6746E",
    128: "6756E 6980P",
    144: "6766E 6780E",
}
"""Models by their cores per socket. A 9242 or 9282 has two dies of these: the robot calls each a socket."""
_CORES_OF = {model.lower(): cores for cores, models in _CORES.items() for model in models.split()}
_WITH_VERSION = re.compile(r"\b(e[57]-\d{4}|x5[56]\d\d)\w?(?: (v\d))?\b")
_SCALABLE = re.compile(r"\b(?P<number>[3-9]\d{3})(?P<letters>[a-z]*)")
_SAME_CORES = ("", "c", "ctdx", "f", "l", "m", "n", "v", "y")
"""Letters after a number that change no cores; H, R and others make it another model."""
_MOST_SOCKETS = 8
_MOST_WITHOUT_THREADS = 4
"""Sockets of machines whose cores may run one thread: those of eight have hyper-threading turned on."""
_FOR_TWO = re.compile(r"(?<![-\w])[3-9][3-9]\d\d(?![a-z]*h)")
"""Processors since Ice Lake that machines have two of, at most: all but those with the letter H."""


def code_name_of_group(group: str) -> str:
    """The processor's code name that the name of a group of test machines implies; "": none.

    >>> code_name_of_group("lkp-csl-2sp4"), code_name_of_group("lkp-knm02"), code_name_of_group("lkp-9x-2sp4")
    ('Cascade Lake', 'Knights Mill', '')
    """
    words = (word.rstrip("0123456789") for word in group.lower().split("-"))
    return next((_CODES[word] for word in words if word in _CODES), "")


def code_name_in(processor: str) -> str:
    """The code name that a description of a processor contains; "": none.

    >>> code_name_in("Intel(R) Xeon(R) CPU E5-2697 v2 @ 2.70GHz (Ivy Bridge-EP)")
    'Ivy Bridge'
    """
    written = processor.lower()
    for wrong, right in _MISSPELT.items():
        written = written.replace(wrong, right)
    return next((name for name in _CODES.values() if name.lower() in written), "")


def sockets_of_group(group: str) -> int | None:
    """The number of sockets that the name of a group of test machines implies; None: none.

    A processor of the kind `ap` has two dies, which Linux counts as sockets.

    >>> [sockets_of_group(f"lkp-{name}") for name in ("skl-2sp7", "cpl-4sp1", "csl-2ap2", "ivb-d02", "knm01")]
    [2, 4, 4, 1, None]
    >>> [sockets_of_group(f"lkp-{name}") for name in ("hsw-ep4", "ivb-ep01", "bdw-de1", "cfl-e1")]
    [2, 2, 1, 1]
    """
    for word in group.lower().split("-"):
        if not (found := _OF_GROUP.fullmatch(word)):
            continue
        if found["alone"]:
            return _ALONE[found["alone"]]
        return int(found["number"]) * (2 if found["kind"] == "ap" else 1)
    return None


def sockets_of_processor(processor: str, cpus: int) -> int | None:
    """The number of sockets that a processor's name implies; None: none, or several.

    Hyper-threading may be turned off: 32 threads of E5-4650 are two sockets with it, and four without.

    >>> [sockets_of_processor(f"CPU E5-{name}", cpus) for name, cpus in (("2699 v3", 72), ("4650", 64))]
    [2, 4]
    >>> [sockets_of_processor("CPU E5-4650", 32), sockets_of_processor("Gold 6252", 48)]
    [None, None]
    >>> [sockets_of_processor(f"Platinum {name}", cpus) for name, cpus in (("8358", 128), ("9242", 192))]
    [2, 4]
    >>> [sockets_of_processor(name, 16) for name in ("CPU D-1541 @ 2.10GHz", "E-2278G", "Gold 6252", "")]
    [1, 1, None, None]
    """
    written = processor.lower()
    sockets = next((number for names, number in _SOCKETS if re.search(names, written)), None)
    if cores := _cores(written):
        fitting = _fitting(written, cores, cpus, sockets)
        sockets = fitting[0] if len(fitting) == 1 else None if fitting else sockets
    return sockets if sockets and not cpus % sockets else None


def _fitting(written: str, cores: int, cpus: int, made_for: int | None) -> list[int]:
    """The numbers of sockets that make so many CPUs: with two threads per core, and with one."""
    has_one = "sierra forest" in written or re.search(r"\b6\d{3}e\b", written)
    most = made_for or (2 if _FOR_TWO.search(written) else _MOST_SOCKETS)
    most_by_threads = {1: most if has_one else min(most, _MOST_WITHOUT_THREADS)}
    if not has_one:
        most_by_threads[2] = most
    found = {threads: divmod(cpus, cores * threads) for threads in most_by_threads}
    return [
        number
        for threads, (number, rest) in found.items()
        if not rest and 0 < number <= most_by_threads[threads]
    ]


def has_four_sockets_or_more(processor: str) -> bool:
    """Whether a processor is one of those for large machines alone.

    >>> has_four_sockets_or_more("CPU E7-8857 v2"), has_four_sockets_or_more("CPU E5-2697 v2")
    (True, False)
    """
    return bool(re.search(r"\be7-8\d{3}|(?:bridge|well|westmere|nehalem)-ex\b", processor.lower()))


def _cores(written: str) -> int | None:
    """The cores of one socket, by the model number."""
    if found := _WITH_VERSION.search(written):
        return _CORES_OF.get(f"{found[1]}{found[2] or ''}")
    for found in _SCALABLE.finditer(written):
        number, letters = found["number"], found["letters"]
        cores = _CORES_OF.get(number + letters)
        if cores is None and letters in _SAME_CORES:
            cores = _CORES_OF.get(number)
        if cores:
            return cores
    return None
