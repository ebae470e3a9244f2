"""How a plan is started: the commands of one engine, node by node, or why the engine cannot run the plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NodeCommand:
    """One command, to be given on one node.

    `words` are the command's words; the only placeholders in them are `${MODEL_DIR}` and `${ADDRESS_n}`, the network address of
    node n. `role` is serve, prefill, decode or generate; `instance` numbers independent servers; `devices` are the node's
    devices that it takes; `head` tells the command that answers requests from those that only join it.
    """

    node: int
    role: str
    instance: int
    devices: tuple[int, ...]
    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    head: bool = True


@dataclass(frozen=True, slots=True)
class EngineLaunch:
    """The launch of a plan on one engine. With `unsupported` reasons there are no commands: none is made up.

    `version` and `source` say whose options these are; `notes` what a reader of the commands should know.
    """

    engine: str
    version: str
    source: str
    commands: tuple[NodeCommand, ...] = ()
    notes: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """Every engine's launch of one plan."""

    engines: tuple[EngineLaunch, ...]
