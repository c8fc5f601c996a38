"""A route to be written in some notation: what its writer is given, and how it refuses."""

from collections.abc import Mapping
from dataclasses import dataclass

from depthgraph.errors import FormatError
from depthgraph.formats.notation import Notation
from depthgraph.route import Route


@dataclass(frozen=True)
class Asked:
    """A route, the notation to write it in, and what the caller said beside it."""

    notation: Notation
    route: Route
    options: Mapping[str, object]

    @property
    def path(self) -> tuple[int, ...]:
        """The layers in the order of execution, numbered from 0."""
        return tuple(layer - 1 for layer in self.route.path)

    def unsayable(self, message: str, help: str = "") -> FormatError:
        """Return the error for a route that the notation cannot say."""
        told = "\n".join(part for part in (help, self.notation.convention) if part)
        return FormatError("unsayable-route", f"{self.notation.title} cannot say this route: {message}", help=told)
