"""How many iterations a loop runs at each step of training: fixed, drawn, or by a schedule. Loads no torch.

A draw is a function of a generator, the step and the number of steps. `generator_of(seed, step, name)` makes the
generator of one step, so what is drawn does not depend on what was drawn before: a run that goes on from a checkpoint
draws what an uninterrupted one draws, and so does every rank of a distributed run, without a word between them.
"""

import itertools
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

# strict: YAML's `yes` and `1.0` are no counts
Count = Annotated[int, Field(ge=1, strict=True)]

#: No draw is above it: more iterations than any spec may have executions.
MOST = 100_000

#: A Poisson rate is split into parts of at most this size: e to the power of minus it is still a number.
PART = 500.0


class Generator(Protocol):
    """What a sampler draws from: Python's `random.Random` has these, and is the same on every machine."""

    def random(self) -> float:
        """Return a number of [0, 1)."""

    def gauss(self, mu: float, sigma: float) -> float:
        """Return a number of a normal distribution."""

    def randint(self, a: int, b: int) -> int:
        """Return an integer of a … b, both included."""


def generator_of(seed: int, step: int, name: str = "") -> random.Random:
    """Return the generator of one step: the same for equal arguments, in every process and on every machine.

    Args:
        seed: of the run.
        step: which step.
        name: of the loop, so that two loops draw different counts.

    Examples:
        >>> generator_of(0, 7, "r").randint(1, 100) == generator_of(0, 7, "r").randint(1, 100)
        True
    """
    return random.Random(f"{seed} {step} {name}")  # a string is hashed whole (SHA-512), whatever PYTHONHASHSEED says


class Sampler(BaseModel, ABC):
    """Base of the samplers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @abstractmethod
    def draw(self, generator: Generator, step: int, steps: int) -> int:
        """Return the count of one step.

        Args:
            generator: what chance is drawn from.
            step: 1 … steps.
            steps: of the whole run.
        """

    @property
    @abstractmethod
    def bounds(self) -> tuple[int, int | None]:
        """The smallest and the largest count that it draws; None where there is no largest."""

    @property
    def usual(self) -> int | None:
        """The one count that it always draws, if there is one."""
        low, high = self.bounds
        return low if low == high else None


class Fixed(Sampler):
    """Always the same count.

    Examples:
        >>> Fixed(count=3).draw(generator_of(0, 1), step=1, steps=10)
        3
    """

    kind: Literal["fixed"] = "fixed"
    count: Count

    def draw(self, generator: Generator, step: int, steps: int) -> int:
        """Return the count."""
        return self.count

    @property
    def bounds(self) -> tuple[int, int]:
        """The count, twice."""
        return self.count, self.count


class Uniform(Sampler):
    """Every count from `low` to `high`, both included, equally often."""

    kind: Literal["uniform"] = "uniform"
    low: Count = 1
    high: Count

    @field_validator("high")
    @classmethod
    def _low_is_not_above_high(cls, high: int, info: ValidationInfo) -> int:
        low = info.data.get("low")
        if low is not None and high < low:
            raise PydanticCustomError("setting", "`high` is {high}, below `low`, {low}", {"high": high, "low": low})
        return high

    def draw(self, generator: Generator, step: int, steps: int) -> int:
        """Draw a count."""
        return generator.randint(self.low, self.high)

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest count."""
        return self.low, self.high


class PoissonLogNormal(Sampler):
    """Huginn's: τ ~ N(log mean - σ²/2, σ), count ~ Poisson(e^τ) + 1 (arXiv 2502.05171, section 3.3).

    The rate e^τ has the mean `mean`, so the counts have the mean `mean + 1` before they are cut off at `max`. Most are
    below it, and there is a heavy tail above. Huginn was trained with mean 32, σ 0.5, and backprop_last 8.

    Attributes:
        mean: of the rate.
        sigma: σ, the spread of the rate's logarithm; 0 gives a plain Poisson distribution.
        max: a larger draw becomes this one.
    """

    kind: Literal["poisson_lognormal"] = "poisson_lognormal"
    mean: float = Field(gt=0, le=10_000, allow_inf_nan=False)
    sigma: float = Field(default=0.5, ge=0, le=10, allow_inf_nan=False)
    max: Count | None = None

    def draw(self, generator: Generator, step: int, steps: int) -> int:
        """Draw a count."""
        rate = math.exp(generator.gauss(math.log(self.mean) - self.sigma**2 / 2, self.sigma))
        return 1 + poisson(rate, generator, MOST if self.max is None else self.max - 1)

    @property
    def bounds(self) -> tuple[int, int | None]:
        """1, and `max`."""
        return 1, self.max


def poisson(rate: float, generator: Generator, most: int = MOST) -> int:
    """Draw from a Poisson distribution by inversion: the first count whose cumulated probability is above a number.

    Args:
        rate: the mean.
        generator: what chance is drawn from.
        most: a larger draw becomes this one, in time that grows with `most` and not with the rate.
    """
    total = 0
    while rate > 0 and total < most:
        part = min(rate, PART)  # a sum of Poisson draws is one of the sum of their rates
        rate -= part
        left = generator.random()
        term, count = math.exp(-part), 0
        while left >= term and total + count < most:
            left -= term
            count += 1
            term *= part / count
            if term == 0.0 and count > part:  # what is left is a rounding error of the sum
                break
        total += count
    return min(total, most)


def _counted(value: object) -> object:
    return {"kind": "fixed", "count": value} if isinstance(value, int | float | str) else value


#: A sampler that does not look at the step; a number stands for `fixed`.
Steady = Annotated[Fixed | Uniform | PoissonLogNormal, Field(discriminator="kind"), BeforeValidator(_counted)]


class Stage(BaseModel):
    """A part of a schedule.

    Attributes:
        until: where it ends, as a part of all steps: 0.5 for half of training.
        count: the count, or a sampler that draws it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    until: float = Field(default=1.0, gt=0, le=1)
    count: Steady


class Schedule(Sampler):
    """Counts by the part of training, such as 1 until half of it, then 3.

    A step belongs to the first stage with step ≤ until · steps, the product rounded as `round` does.

    Examples:
        >>> half = Schedule.model_validate({"stages": [{"until": 0.5, "count": 1}, {"count": 3}]})
        >>> [half.draw(generator_of(0, step), step, 6) for step in range(1, 7)]
        [1, 1, 1, 3, 3, 3]
    """

    kind: Literal["schedule"] = "schedule"
    stages: tuple[Stage, ...]

    @field_validator("stages")
    @classmethod
    def _stages_cover_the_run(cls, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        ends = [stage.until for stage in stages]
        if ends[-1:] != [1.0] or any(one >= other for one, other in itertools.pairwise(ends)):
            found = {"ends": ", ".join(f"{end:g}" for end in ends) or "nothing"}
            raise PydanticCustomError("setting", "`until` rises from stage to stage, to 1; found {ends}", found)
        return stages

    def draw(self, generator: Generator, step: int, steps: int) -> int:
        """Draw a count of the step's stage."""
        stage = next(each for each in self.stages if step <= round(each.until * steps) or each.until == 1.0)
        return stage.count.draw(generator, step, steps)

    @property
    def bounds(self) -> tuple[int, int | None]:
        """The smallest and the largest count of all stages."""
        lows, highs = zip(*(stage.count.bounds for stage in self.stages), strict=True)
        return min(lows), None if None in highs else max(highs)


def draw_counts(loops: Mapping[str, Sampler], seed: int, step: int, steps: int) -> dict[str, int]:
    """Return the count of every loop at one step, the same in every process.

    Args:
        loops: name → how it is drawn.
        seed: of the run.
        step: 1 … steps.
        steps: of the whole run.

    Examples:
        >>> draw_counts({"r": Uniform(low=2, high=4), "k": Fixed(count=1)}, seed=0, step=1, steps=10).keys()
        dict_keys(['r', 'k'])
    """
    return {name: loop.draw(generator_of(seed, step, name), step, steps) for name, loop in loops.items()}
