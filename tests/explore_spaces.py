"""Hypothesis strategies for spaces of routes that are small enough to write down."""

from hypothesis import strategies as st

from depthgraph.explore import RouteSpace

#: the widest space that is written down here: 4 ** 6 paths.
DEEPEST, LONGEST = 4, 6


ARITHMETIC = st.sampled_from([None, "ilr"])


@st.composite
def spaces(draw, patterns=ARITHMETIC):
    N = draw(st.integers(1, DEEPEST))
    low = draw(st.integers(1, LONGEST))
    executions = draw(st.sampled_from([low, (low, draw(st.integers(low, LONGEST)))]))
    ratio = st.integers(0, 12).map(lambda n: n / 5)
    flops = draw(st.one_of(st.none(), ratio, st.tuples(ratio, ratio).map(sorted).map(tuple)))
    costs = draw(st.none() | st.lists(st.integers(1, 4), min_size=N, max_size=N).map(tuple))
    visits = draw(st.none() | st.integers(1, 4))
    return RouteSpace(N, executions, flops, visits, draw(st.booleans()), draw(patterns), costs)
