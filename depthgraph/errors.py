"""The errors of this package: what was found, where, and what to do.

Every kind of error has a stable code, listed in `KINDS` and explained in docs/errors.md. A class groups the
kinds that a caller would catch together.
"""

import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from depthgraph.source import Location, Source, Span

NO_SPAN = Span(0, 0)


class DepthGraphError(Exception):
    """Base of all errors that this package raises on purpose.

    Attributes:
        code: the stable code of the kind, a key of `KINDS`.
        message: one sentence that says what was found.
        help: what to do about it; empty when there is nothing to suggest.
        source: the text that it is about, and the file that text stands in; None when it is about no text.
        span: where in that text.
    """

    def __init__(
        self, code: str, message: str, source: Source | None = None, span: Span = NO_SPAN, *, help: str = ""
    ) -> None:
        assert code in KINDS, code
        super().__init__(message)
        self.code = code
        self.message = message
        self.help = help
        self.source = source
        self.span = span

    @property
    def location(self) -> Location | None:
        """Where it is: line, column and width, in the file when the text came from one."""
        return self.source.locate(self.span) if self.source else None

    def render(self) -> str:
        """Return the whole error as it is printed: place, sentence, source line, caret, help."""
        tail = f"\nhelp: {self.help}" if self.help else ""
        place = self.location
        if self.source is None or place is None:
            return f"error[{self.code}]: {self.message}{tail}"
        head = f"{self.source.name}:{place.line}:{place.column}: error[{self.code}]: {self.message}"
        return f"{head}\n{place.picture()}{tail}"

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.__dict__))

    def as_json(self) -> dict[str, object]:
        """Return the error as plain data for `--json`."""
        data: dict[str, object] = {"code": self.code, "message": self.message, "help": self.help}
        place = self.location
        if self.source is not None and place is not None:
            data |= {"file": self.source.name, "line": place.line, "column": place.column, "width": place.width}
        return data


def _rebuild(kind: type[DepthGraphError], state: dict[str, object]) -> DepthGraphError:
    error = kind.__new__(kind, state["message"])
    error.__dict__.update(state)
    return error


class SpecError(DepthGraphError):
    """A route spec that does not mean a route; it has a place in the spec's text."""


@dataclass(frozen=True)
class Fault(Exception):  # noqa: N818
    """What is wrong and where in the text, before anyone has said which text."""

    code: str
    message: str
    span: Span
    help: str = ""

    def at(self, source: Source) -> SpecError:
        """Return the error, in its source."""
        return SpecError(self.code, self.message, source, self.span, help=self.help)


class GraphError(DepthGraphError):
    """A networkx graph that breaks a rule of `verify`; `failures` has every one of them."""

    def __init__(self, code: str, message: str, *, help: str = "", failures: tuple[object, ...] = ()) -> None:
        super().__init__(code, message, help=help)
        self.failures = failures


class CompileError(DepthGraphError):
    """A route and layers that do not fit together."""


class CostError(DepthGraphError):
    """A cost that cannot be counted on these layers, or not with these sizes."""


class ConfigError(DepthGraphError):
    """A config file, a setting or a checkpoint that cannot be used as it is."""


class DrawError(DepthGraphError):
    """A picture that cannot be made in this view, in this format, or on this machine."""


class ExploreError(DepthGraphError):
    """A space of routes that cannot be, or is asked for what it does not hold."""


class FormatError(DepthGraphError):
    """A value in the notation of another project, or a route that the notation cannot say."""


class MissingPackageError(DepthGraphError, ImportError):
    """An optional package that this call needs is not installed."""


def shown(value: object) -> str:
    """Return a value as messages show it, short, whatever its own `repr` does."""
    try:
        return reprlib.repr(value)
    except Exception:  # it is somebody else's code
        return f"a {type(value).__name__}"


def meant(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the help for a name that does not exist: the one that is like it, or else what is said otherwise.

    Examples:
        >>> meant("ltf", ["std", "lft"], "the schemes are std, lft"), meant("q", ["lft"])
        ('did you mean `lft`?', '')
    """
    close = get_close_matches(name, list(known), n=1)
    return f"did you mean `{close[0]}`?" if close else otherwise


#: code → what the kind means, in one line. docs/errors.md has an entry for each; a test holds that.
KINDS: dict[str, str] = {
    # the text
    "not-a-spec": "something else than text where a spec is needed",
    "empty-spec": "the spec has no text",
    "bad-character": "a character that is not part of the language",
    "bad-number": "digits and letters run together",
    "syntax": "a token where the grammar allows others",
    "ambiguous-repeat": "a repeat that could be read in two ways",
    "reserved-name": "a word of the language used as a name",
    "duplicate-name": "one name defined twice in one place",
    # limits
    "spec-too-long": "more characters than the limit",
    "name-too-long": "a name with more characters than the limit",
    "too-deep": "nesting over the limit",
    "number-too-large": "an integer with more digits than the limit",
    "too-many-executions": "more executions than the limit",
    # names and values
    "unknown-name": "a scheme that is neither in the library nor defined here",
    "unused-name": "a definition that the spec never uses",
    "missing-binding": "names that the caller has to bind",
    "unknown-binding": "a binding for a name that the spec does not have",
    "bad-binding": "a binding that is not an integer",
    "wrong-arguments": "a scheme called with arguments it does not take",
    "not-an-integer": "a sequence where an integer is needed",
    "recursive-definition": "a definition that uses itself",
    "bad-count": "a count below 1",
    "division-by-zero": "an integer divided by zero",
    # meaning
    "descending-range": "a range whose first end is larger",
    "fill-in-loop": "a fill inside a loop",
    "unknown-layer": "a layer outside 1..N",
    "unused-layer": "a layer that no execution runs",
    "dropped-layer-runs": "a layer both dropped and run",
    "empty-route": "a route that runs nothing",
    # data flow
    "unknown-register": "a register read before it is saved",
    "unused-register": "a register saved and never read",
    "unused-result": "a hidden state that nothing reads",
    "empty-branch": "a branch that runs no layer",
    "data-flow-in-rev": "data flow where the order of executions is reversed",
    # graphs
    "invalid-graph": "a graph that breaks rules of verify",
    # compile
    "layer-count": "not as many layers as the route has",
    "shared-layer": "one module object given as two layers",
    "layer-inputs": "inputs that do not fit the layers' forward",
    "layer-shape": "a layer that changes the shape of the hidden state",
    "layer-output": "a layer that returns no hidden state",
    "bad-constant": "a constant per execution that cannot be bound",
    "unknown-width": "a width of the hidden state that has to be said",
    "unknown-weights": "weights given for a mix or gate that the route does not have",
    "loop-count": "a count at run time that is missing, or that the model does not take",
    "moving-weights": "weights of mix or gate whose places change with a loop count",
    "bad-truncation": "a loop whose gradient cannot be cut before its last iterations",
    "bad-layers": "layers that are not modules with a forward",
    "not-a-route": "something else where a route or its graph is needed",
    # conditioning
    "bad-conditioning": "an option of conditioning that means nothing",
    "unused-conditioning": "an option of conditioning that is for no execution",
    "double-conditioning": "two options that give one execution the same thing",
    "conditioning-target": "no module in the layer that could be conditioned",
    "conditioning-mismatch": "conditioning that was made for other layers, or for a shorter route",
    "checkpoint-in-layer": "checkpointing inside a layer whose weights are exchanged",
    "cannot-merge": "weights of single visits that cannot become one weight",
    "cannot-unshare": "a graph with calls that belong to no execution",
    # compiled models
    "no-compiled-route": "a module that holds no compiled route, or several",
    "unknown-execution": "an execution that the route does not have",
    "unexpected-call": "layers called in another order than the route's while a model is captured",
    "too-many-tokens": "more tokens than the learned positions reach",
    # Hugging Face models
    "unroutable-model": "a model whose layers cannot run in another order",
    "cache-mismatch": "a KV cache whose slots are not those of the route",
    "route-mismatch": "a config that says another route than the model runs",
    "cannot-unroll": "a model that no plain model with copied layers equals",
    # cost
    "cannot-count": "a layer that cannot be counted without data",
    "wrong-size": "a batch, a length or an example that is no size, or not the same",
    # pictures
    "unknown-view": "no such view, or not in this format",
    "missing-dot": "no Graphviz program to render with",
    "too-large-to-draw": "a picture with too many parts to read",
    # spaces of routes
    "invalid-space": "bounds of a space of routes that are none, or bound nothing",
    "invalid-pattern": "a pattern of routes whose names or ranges do not fit",
    "space-too-large": "a space of routes with too much to count or to try",
    "empty-space": "a route drawn from a space that has none",
    "not-in-space": "a route outside the space that it is used with",
    "unknown-measure": "a measure that does not exist, or that nothing can equal",
    # notations of other projects
    "unknown-notation": "no such notation",
    "notation-option": "something that a notation has to be told, or does not take",
    "invalid-notation": "a value that its notation does not have, or that says no route",
    "unsayable-route": "a route that a notation cannot say",
    # files and settings
    "invalid-yaml": "a file that is not valid YAML",
    "invalid-config": "a config with wrong or unknown settings",
    "missing-file": "a file that is not there",
    "wrong-usage": "a command called in a way that it does not take",
    "existing-run": "a run folder that already has a run",
    "existing-files": "a new folder that has files already",
    "not-finite": "a loss or a gradient that is not a finite number",
    "checkpoint-mismatch": "a checkpoint that does not fit",
    "results-mismatch": "results of another model, text or setting",
    "missing-package": "an optional package that is not installed",
}
