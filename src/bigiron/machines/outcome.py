"""What a machine leaves: what its agent says, whatever the machine that it runs on, and what was recorded."""

from dataclasses import dataclass, field
from pathlib import Path

from bigiron.errors import MachineError, UserError
from bigiron.introspect.memory import GuestRam
from bigiron.machines.messages import PROTOCOL, Message


@dataclass
class Outcome:
    """What a machine that ran to its end said."""

    messages: list[Message] = field(default_factory=list)
    seconds_to_agent: float = 0.0
    seconds: float = 0.0
    stage: str = "starting"
    results: Path = Path()  # where the recorder's files are, if there was one
    ram: GuestRam | None = None  # the machine's memory, where something was recorded in it

    def hear(self, message: Message, seconds: float) -> None:
        """Take in a message that came so many seconds after the start.

        UserError where the agent says that what it was given cannot run, MachineError where the machine
        failed.
        """
        self.messages.append(message)
        self.seconds = seconds
        if message.type == "hello":
            self.seconds_to_agent = seconds
            if message.content.get("protocol") != PROTOCOL:
                spoken = message.content.get("protocol")
                raise MachineError(f"the agent speaks protocol {spoken}, not {PROTOCOL}")
            self.stage = "starting tasks"
        elif message.type == "stage":
            self.stage = f"in {message.content.get('stage')}"
        elif message.type == "error":
            kind, text = str(message.content.get("kind")), str(message.content.get("text"))
            if kind == "machine":
                raise MachineError(text)
            raise UserError(f"{kind}: {text}" if kind != "workload" else text)

    @property
    def ended(self) -> bool:
        """Whether the agent has said its last word."""
        return bool(self.messages) and self.messages[-1].type == "end"


class StoppedError(Exception):
    """The user asked to stop while the machine ran."""
