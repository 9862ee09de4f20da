"""What a machine leaves: what its agent says, whatever the machine that it runs on, and what was recorded."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bigiron.errors import MachineError, UserError
from bigiron.introspect.memory import GuestRam
from bigiron.machines.messages import PROTOCOL, Message, check
from bigiron.util.sanitize import sanitize

_SECURITY = ("security_modules", "security_label")


@dataclass
class MachineOutcome:
    """What a machine that ran to its end said."""

    messages: list[Message] = field(default_factory=list)
    seconds_to_agent: float = 0.0
    seconds: float = 0.0
    stage: str = "starting"
    waits: bool = False  # for another agent on a real machine: its time has not begun
    damaged: int = 0  # messages that came damaged, and were skipped
    results: Path = Path()  # where the recorder's files are, if there was one
    ram: GuestRam | None = None  # the machine's memory, where something was recorded in it
    clock_slower: int = 1  # how many times the machine's clock was slowed down, which follows the host's

    def receive(self, message: Message, seconds: float) -> None:
        """Take in a message that came so many seconds after the start.

        UserError where the agent says that what it was given cannot run, MachineError where the machine
        failed.
        """
        check(message)
        # A resumed VM sent its "room" message before the snapshot.
        if message.type != "room" and not self._continues_a_file(message):
            self.messages.append(message)
        self.seconds = seconds
        self.waits = message.type == "waiting"
        if self.waits:
            self.stage = "waiting for another bigiron"
        elif message.type in ("room", "hello"):
            self.seconds_to_agent = seconds
            if message.content.get("protocol") != PROTOCOL:
                spoken = message.content.get("protocol")
                raise MachineError(f"the agent speaks protocol {spoken}, not {PROTOCOL}")
            self.stage = "starting tasks"
        elif message.type == "stage":
            self.stage = f"in {sanitize(str(message.content.get('stage')))}"
        elif message.type == "end" and message.content["failed"]:
            raise MachineError("the agent failed and gave no reason")
        elif message.type == "error":
            kind, text = str(message.content.get("kind")), str(message.content.get("text"))
            if kind == "machine":
                raise MachineError(text, str(message.content.get("output", "")))
            raise UserError(f"{kind}: {text}" if kind != "workload" else text)

    def _continues_a_file(self, message: Message) -> bool:
        """Whether it is the next part of the file that came last: then that has its lines now."""
        if message.type != "file":
            return False
        last = next((other for other in reversed(self.messages) if other.type == "file"), None)
        if (
            not last
            or not last.content.get("more")
            or last.content.get("path") != message.content.get("path")
        ):
            return False
        lines, rest = last.content.get("lines"), message.content.get("lines")
        if not isinstance(lines, list) or not isinstance(rest, list):
            return False
        lines += rest
        last.content["more"] = message.content.get("more")
        return True

    @property
    def lost(self) -> dict[str, int]:
        """What the agent had to leave out, or what came damaged, and why: how many of each."""
        lost = Counter({"messages of the agent that arrived damaged": self.damaged})
        for message in self.messages:
            if message.type == "lost":
                what, count = message.content.get("what"), message.content.get("count")
                if not isinstance(what, str) or not isinstance(count, int):
                    raise MachineError("the agent does not say what was lost")
                lost[what] += count
        return dict(+lost)

    @property
    def recorded_ns(self) -> int:
        """How long the recording took by the machine's clock; 0: nothing was recorded."""
        return sum(message.content["nanoseconds"] for message in self.messages if message.type == "recorded")

    @property
    def environment(self) -> dict[str, object]:
        """What the machine reported of itself, for the cell's record."""
        reported: dict[str, object] = {}
        for message in self.messages:
            if message.type == "hello":
                reported |= {name: message.content.get(name, "") for name in _SECURITY}
            elif message.type == "cgroup":
                reported["cgroup_controllers"] = message.content["controllers"]
                if message.content["absent"]:
                    reported["cgroup_absent"] = message.content["absent"]
        return reported

    @property
    def ended(self) -> bool:
        """Whether the agent has said its last word."""
        return bool(self.messages) and self.messages[-1].type == "end"
