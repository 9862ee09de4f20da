"""The configuration of a kernel that bigiron builds: as little as boots in the virtual machine, and what the
probes need. It is in fragments/, in the kernel's own format; everything else is off.
"""

import re
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bigiron.architectures import architecture
from bigiron.errors import UserError

_FRAGMENTS = Path(__file__).with_name("fragments")
_REPLACED = {"PREEMPT_VOLUNTARY": "PREEMPT_LAZY"}  # in newer kernels
_LINE = re.compile(r"(?:CONFIG_(\w+)=(.+)|# CONFIG_(\w+) is not set)")
_WHOLE = re.compile(r"# Linux/(\S+) \S+ Kernel Configuration")
_LONGEST = 16 << 20  # bytes of an image's configuration
_HEADING = 10  # lines, in which a whole configuration says what it is
_CHOICES = (re.compile(r"HZ_\d+"), re.compile(r"PREEMPT(_NONE|_VOLUNTARY|_LAZY|_RT)?"))
"""The tick rate and the preemption model: one option of each is set, and a user's replaces ours."""
_TAKEN = re.compile(r'y|n|-?\d+|0x[0-9a-fA-F]+|"[\w ,.-]*"')
"""Values that are not taken over: make would expand texts, and paths are of another machine."""
_PAGES = re.compile(r"(?:ARM64|PPC)_(\d+)K_PAGES")
_DEFINED = re.compile(r"^\s*(?:menu)?config\s+(\w+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class ConfigOption:
    """An option, its value, and the fragment that asked for it last."""

    name: str
    value: str  # y, n, a number or "text"
    fragment: Path
    is_required: bool = True

    @property
    def is_ours(self) -> bool:
        return self.fragment.parent == _FRAGMENTS


def config_options(arch: str, more: Sequence[Path]) -> list[ConfigOption]:
    """The options to set: bigiron's own fragments, then the user's, of which the last one counts.

    Below them all is what a user's whole configuration asks for. None of it is required, as another kernel or
    compiler has other options. Modules are not in the virtual machine, and of texts only names are taken.
    """
    wholes = {fragment: theirs for fragment in more if (theirs := _architecture(fragment))}
    asked = [option for fragment in more if fragment not in wholes for option in _read(fragment)]
    found: dict[str, ConfigOption] = {}
    for whole, theirs in wholes.items():
        if theirs not in (arch, architecture(arch).kernel_arch):
            raise UserError(
                f"{whole} is the configuration of a {theirs} kernel, and the kernel is for {arch}"
            )
        taken = (option for option in _read(whole) if _TAKEN.fullmatch(option.value))
        wished = (replace(option, is_required=False) for option in taken)
        found |= {option.name: option for option in wished}
    for fragment in (_FRAGMENTS / "common.config", _FRAGMENTS / f"{arch}.config"):
        ours = (option for option in _read(fragment) if not (wholes and _choice(option)))
        found |= {option.name: option for option in ours}
    for option in asked:
        if option.value == "y" and (pages := _PAGES.fullmatch(option.name)):
            architecture(arch).with_pages_of(int(pages[1]) << 10)  # refuses what bigiron cannot read
    for choice in {_choice(option) for option in asked if option.value == "y"} - {None}:
        found = {name: option for name, option in found.items() if _choice(option) != choice}
    found |= {option.name: option for option in asked}
    return list(found.values())


def _choice(option: ConfigOption) -> re.Pattern[str] | None:
    return next((choice for choice in _CHOICES if choice.fullmatch(option.name)), None)


def of_file_system(name: str) -> list[Path]:
    """What a kernel needs to have a file system built in, as distributions configure it; of tmpfs nothing.

    >>> [[fragment.name for fragment in of_file_system(name)] for name in ("ext4", "tmpfs", "")]
    [['ext4.config'], [], []]
    """
    return [] if name in ("", "tmpfs") else [_FRAGMENTS / f"{name}.config"]


def of_root() -> list[Path]:
    """What a kernel needs to run programs of a root file system (bigiron.roots)."""
    return [_FRAGMENTS / "root.config"]


def is_whole(fragment: Path) -> bool:
    """Whether it is a kernel's whole configuration, as make writes it (`.config`, `/boot/config-*`)."""
    return bool(_architecture(fragment))


def _architecture(fragment: Path) -> str:
    """That of a whole configuration, as its heading calls it; nothing for others."""
    headings = map(_WHOLE.fullmatch, _lines(fragment)[:_HEADING])
    return next((heading[1] for heading in headings if heading), "")


def text(options: Sequence[ConfigOption]) -> str:
    """The options as one fragment."""
    return "".join(f"CONFIG_{option.name}={option.value}\n" for option in options)


def of_image(image: bytes) -> dict[str, str]:
    """The options of an uncompressed image, if it contains them as /proc/config.gz does; else none."""
    _, _, packed = image.partition(b"IKCFG_ST")
    try:
        unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
        text = unpacker.decompress(packed[: packed.index(b"IKCFG_ED")], _LONGEST).decode()
    except (ValueError, zlib.error):
        return {}
    return dict(_settings(text)) if unpacker.eof else {}


def check(
    options: Sequence[ConfigOption], config: Path, source: Path, may_lack: Collection[str] = ()
) -> None:
    """Raise UserError if the kernel's configuration (`.config`) lacks a requested option.

    Kernels differ: an option of bigiron's own that this one does not know at all, or has another in place
    of, is none that it lacks. Nor is one of `may_lack` that it does not know.
    """
    given = {name: value for name, value in _settings(config.read_text(encoding="utf-8"))}
    required = [option for option in options if option.is_required]
    dropped = [option for option in required if given.get(option.name, "n") != option.value]
    if not dropped:
        return
    known = _known_options(source)
    needed = known - {old for old, new in _REPLACED.items() if given.get(new) == "y"}
    for option in dropped:
        if option.name not in known and not option.is_ours and option.name not in may_lack:
            raise UserError(f"{option.fragment}: this kernel has no option CONFIG_{option.name}")
    if lacking := [option for option in dropped if option.name in (needed if option.is_ours else known)]:
        named = ", ".join(f"CONFIG_{option.name}={option.value}" for option in lacking)
        raise UserError(
            f"the kernel's configuration drops {named} ({lacking[0].fragment.name}): "
            "a dependency is not set, or another option selects a different value"
        )


def _read(fragment: Path) -> list[ConfigOption]:
    found = []
    for number, line in enumerate(_lines(fragment), start=1):
        settings = _settings(line)
        if not settings and line.strip() and not line.startswith("#"):
            raise UserError(
                f"{fragment}:{number}: {line.strip()!r} is not an option: "
                "use CONFIG_NAME=y or # CONFIG_NAME is not set"
            )
        found += [ConfigOption(name, value, fragment) for name, value in settings]
    return found


def _lines(fragment: Path) -> list[str]:
    try:
        return fragment.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{fragment} cannot be read: {getattr(error, 'strerror', 'it is not text')}"
        ) from None


def _settings(text: str) -> list[tuple[str, str]]:
    r"""Names and values.

    >>> _settings('CONFIG_SMP=y\n# CONFIG_NUMA is not set\n# a comment')
    [('SMP', 'y'), ('NUMA', 'n')]
    """
    matches = [match for line in text.splitlines() if (match := _LINE.fullmatch(line.strip()))]
    return [(match[1], match[2]) if match[1] else (match[3], "n") for match in matches]


def _known_options(source: Path) -> set[str]:
    files = [file for file in source.rglob("Kconfig*") if file.is_file()]
    return {name for file in files for name in _DEFINED.findall(file.read_text(errors="replace"))}
