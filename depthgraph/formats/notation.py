"""What a notation of another project is: a record of its conventions, and how it is read and written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from depthgraph.route import Route

if TYPE_CHECKING:
    from depthgraph.formats.asked import Asked
    from depthgraph.formats.given import Given

#: The route of the examples: four layers, then three of which two have run before.
EXAMPLE = "1..4 3..5"


@dataclass(frozen=True)
class Option:
    """What a notation has to be told beside the value or the route.

    Attributes:
        help: what it is.
        reads: whether `read` takes it.
        writes: whether `write` takes it.
        required: whether it has to be given.
        default: what it is otherwise; None: it is left out.
        check: whether a value can be meant; its kind is in `help`.
    """

    help: str
    reads: bool = False
    writes: bool = False
    required: bool = False
    default: object = None
    check: Callable[[object], bool] = lambda _: True


def _none(given: "Given") -> dict[str, object]:
    return {}


@dataclass(frozen=True)
class Notation:
    """One notation of another project for which layers run, in which order.

    Attributes:
        name: what `read`, `write` and the command line call it.
        title: the project, and its word for the value.
        base: the number of its first layer; None: the caller says it.
        ends: how its ranges end, as a clause.
        example: a value, as text.
        weights: whether the executions of a layer share its weights there.
        cannot: which routes it cannot say.
        checked: what this was read from: project, version, file.
        read: from a value to a route.
        write: from a route to a value.
        text: from a value to what one types or saves.
        spec: the route that the example says.
        inline: the example in short, where it has several lines.
        needs_depth: whether reading the example needs N.
        key: the key that holds the value in the project's config files.
        syntax: `literal`, a value of Python, JSON or YAML, or `text` with a syntax of its own.
        options: what else it has to be told.
        read_options: from a value to what else it says, as options of `write`.
    """

    name: str
    title: str
    base: int | None
    ends: str
    example: str
    weights: str
    cannot: str
    checked: str
    read: "Callable[[Given], Route]"
    write: "Callable[[Asked], object]"
    text: Callable[[object], str]
    spec: str = EXAMPLE
    inline: str = ""
    needs_depth: bool = False
    key: str | None = None
    syntax: Literal["literal", "text"] = "literal"
    options: Mapping[str, Option] = field(default_factory=lambda: MappingProxyType({}))
    read_options: "Callable[[Given], dict[str, object]]" = _none

    @property
    def counting(self) -> str:
        """How it numbers layers, as a clause."""
        return "layers count from the base that is given" if self.base is None else f"layers count from {self.base}"

    @property
    def convention(self) -> str:
        """What every error about it says: index base, end convention, and an example."""
        shown = self.inline or self.example
        return f"{self.title}: {self.counting}; {self.ends}; `{shown}` is `{self.spec}` here, where they count from 1"
