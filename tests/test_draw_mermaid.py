"""Facts on Mermaid flowcharts."""

import re

import pytest

import depthgraph as dg
from depthgraph.draw.mermaid import escaped, folded_mermaid, unrolled_mermaid
from depthgraph.route import Route

FOLDED = """\
flowchart BT
  start(["input"])
  finish(["output"])
  classDef ends fill:#f6f8fa,stroke:#57606a,color:#1f2328
  class start,finish ends
  L1("L1")
  L2("attn#58;0")
  L3("L3")
  start -->|"1"| L1
  L1 -->|"2"| L2
  L2 -->|"3"| finish
  L2 ==>|"×2"| L1
  classDef layer1 fill:#77aadd,stroke:#57606a,color:#1f2328
  class L1 layer1
  classDef layer2 fill:#bbcc33,stroke:#57606a,color:#1f2328
  class L2 layer2
  classDef dropped fill:#ffffff,stroke:#6e7781,color:#6e7781,stroke-dasharray:4 3
  class L3 dropped
  linkStyle 3 stroke:#6f42c1,color:#6f42c1
"""
UNROLLED = """\
flowchart LR
  start(["input"])
  finish(["output"])
  classDef ends fill:#f6f8fa,stroke:#57606a,color:#1f2328
  class start,finish ends
  classDef loop fill:#f3f0fa,stroke:#6f42c1,color:#6f42c1
  classDef iteration fill:#ffffff,stroke:#6e7781,color:#6e7781
  subgraph frame1["×2"]
    subgraph frame2["iteration 1 of 2"]
      L1_1("L1·1")
    end
    class frame2 iteration
    subgraph frame3["iteration 2 of 2"]
      L1_2("L1·2")
    end
    class frame3 iteration
  end
  class frame1 loop
  start --> L1_1
  L1_1 --> L1_2
  L1_2 --> finish
  classDef layer1 fill:#77aadd,stroke:#57606a,color:#1f2328
  class L1_1,L1_2 layer1
"""


def test_folded():
    assert folded_mermaid(dg.route("(1..2)x2 drop(3)"), {2: "attn:0"}) == FOLDED


def test_unrolled():
    assert unrolled_mermaid(dg.route("1x2")) == UNROLLED


def test_a_long_route_goes_down_the_page():
    assert unrolled_mermaid(dg.route("1..13")).startswith("flowchart TB\n")


def test_64_iterations_are_one_mark():
    assert folded_mermaid(Route.of([1, 2, 3, 4] * 64)).count("×") == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mlp 1", "mlp 1"),
        ("1. list", "1#46; list"),
        ("`a` #35;", "#96;a#96; #35;35#59;"),
        ("<b>", "#60;b#62;"),
        ("日本", "日本"),
        ("ﬂ°°60¶ß", "fl#176;#176;60#182;ß"),
    ],
)
def test_signs_become_codes(name, text):
    assert escaped(name) == text


@pytest.mark.parametrize(
    ("draw", "spec"),
    [(folded_mermaid, "1..500"), (unrolled_mermaid, "1..500"), (folded_mermaid, "1..300 rev(1..300)")],
)
def test_what_mermaid_does_not_take_is_refused(draw, spec):
    with pytest.raises(dg.DrawError) as caught:
        draw(dg.route(spec))
    assert caught.value.code == "too-large-to-draw"
    assert 'save it as .svg, or draw it with view="staircase"' in caught.value.help


def test_the_text_limit_of_mermaid_holds():
    with pytest.raises(dg.DrawError) as caught:
        folded_mermaid(dg.route("1..400"), ["::" * 60] * 400)
    assert re.fullmatch(
        r".* characters are too many for the folded Mermaid view, which takes 50,000", caught.value.message
    )
