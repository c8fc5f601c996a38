"""The one error that code raises which was written into a folder that loads without this package (`standalone`).

Nothing here imports it: there it takes the place of `depthgraph.errors`.
"""


class CompileError(ValueError):
    """A model, a cache or a config that does not fit the route.

    Attributes:
        code: the stable code of the kind; docs/errors.md of depthgraph explains each.
        help: what to do about it.
    """

    def __init__(self, code: str, message: str, *, help: str = "") -> None:
        super().__init__(f"error[{code}]: {message}" + (f"\nhelp: {help}" if help else ""))
        self.code = code
        self.help = help
