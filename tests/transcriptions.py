"""Published routes as plain Python, in the words and with the indexes of their sources: what the catalogue is held to.

`f` is a list of layers, from 0 as in the sources; `h` is the input. `mix(number, h, a)` and `gate(number, h, a)` are the
adapters, numbered in the order in which they first run.
"""


def stack(f, h, order):
    for index in order:
        h = f[index](h)
    return h


def layer_feedback(f, h, n):
    """The LFT paper: layer 0; then each layer i, and unless it is the last one, i - 1 and i again."""
    h = f[0](h)
    for i in range(1, n):
        h = f[i](h)
        if i < n - 1:
            h = f[i - 1](h)
            h = f[i](h)
    return h


def loop_map(f, h, counts):
    """ILR: layer i is applied counts[i] times in a row."""
    for layer, count in zip(f, counts, strict=True):
        for _ in range(count):
            h = layer(h)
    return h


def block_recurrence(f, h, r, inject):
    """ILR's code: the stack r times, with the embeddings added before every pass but the first where it injects."""
    embeddings = h
    for step in range(r):
        if step > 0 and inject:
            h = h + embeddings
        for layer in f:
            h = layer(h)
    return h


def takase_kiyono(f, h, m, n, strategy):
    """Takase and Kiyono: m unique layers, n in all, by sequence, cycle, or cycle (rev)."""
    for i in range(n):
        match strategy:
            case "sequence":
                h = f[i // (n // m)](h)
            case "cycle":
                h = f[i % m](h)
            case "cycle (rev)":
                h = f[i if i < m else m - 1 - (i - m) % m](h)
    return h


def immediate_repeat(f, h):
    """MobileLLM-LS: each block runs twice before the next one."""
    for layer in f:
        h = layer(layer(h))
    return h


def mixture_of_recursions(f, h, recursions, middle, per_layer=False):
    """Mixture-of-Recursions: unique first and last layer, the middle ones shared."""
    h = f[0](h)
    if per_layer:
        for i in range(middle):
            for _ in range(recursions):
                h = f[1 + i](h)
    else:
        for _ in range(recursions):
            for i in range(middle):
                h = f[1 + i](h)
    return f[-1](h)


def prelude_core_coda(f, h, sizes, r, adapter=None):
    """Huginn and its kind: prelude, the core r times with the embedding mixed in, coda."""
    p, c, q = sizes
    for layer in f[:p]:
        h = layer(h)
    embedding = h
    for _ in range(r):
        if adapter is not None:
            h = adapter(h, embedding)
        for layer in f[p : p + c]:
            h = layer(h)
    for layer in f[p + c : p + c + q]:
        h = layer(h)
    return h


def ouro(f, h, steps):
    """Ouro: the stack, again and again, and what each pass gives."""
    given = []
    for _ in range(steps):
        for layer in f:
            h = layer(h)
        given.append(h)
    return h, tuple(given)


def inkling2(f, h, start, end, passes, message):
    """transformers' inkling2_loop: every pass restarts from the state before the loop, with messages from the last."""
    for layer in f[:start]:
        h = layer(h)
    before = h
    for layer in f[start:end]:
        h = layer(h)
    for _ in range(1, passes):
        previous, h = h, before
        h = message(h, previous)
        for layer in f[start:end]:
            h = layer(h)
    for layer in f[end:]:
        h = layer(h)
    return h


def hrm(f, x, low, high_cycles, low_cycles):
    """sapientinc/HRM: z_L from z_L and z_H + x, low_cycles times, then z_H from z_H and z_L."""
    z_high, z_low = x, x
    for _ in range(high_cycles):
        for _ in range(low_cycles):
            z_low = stack(f[:low], z_low + z_high + x, range(low))
        z_high = stack(f[low:], z_high + z_low, range(len(f) - low))
    return z_high


def hrm_text(f, embeddings, size, high_cycles, low_cycles):
    """transformers' hrm_text: the low state starts at zero, the high one as the embeddings."""
    state_high, state_low = embeddings, embeddings * 0
    for _ in range(high_cycles):
        for _ in range(low_cycles):
            state_low = stack(f[:size], state_low + state_high, range(size))
        state_high = stack(f[size:], state_high + state_low, range(size))
    return state_high


def trm(f, x, n, rounds):
    """TRM: z from x, y and z, n times; then y from y and z; all of it `rounds` times over one network."""
    y, z = x, x
    for _ in range(rounds):
        for _ in range(n):
            z = stack(f, z + y + x, range(len(f)))
        y = stack(f, y + z, range(len(f)))
    return y


def relayered(f, h, i, j):
    """RYS: layers 0 to j - 1, then i to the end."""
    return stack(f, stack(f, h, range(j)), range(i, len(f)))


def half_open(f, h, slices):
    """PEFT's layer_replication and mergekit's slices: half-open ranges one behind the other."""
    for start, end in slices:
        h = stack(f, h, range(start, end))
    return h


def golf_loop(f, h, start, end, extra):
    """parameter-golf: the layers in order; behind the last one of the loop, the loop `extra` times more."""
    for index, layer in enumerate(f):
        h = layer(h)
        if index == end:
            for _ in range(extra):
                h = stack(f, h, range(start, end + 1))
    return h


def unet(f, h, gate):
    """parameter-golf's skips: the first two layers push their outputs, the last two pop them."""
    skips = []
    for i in range(2):
        h = f[i](h)
        skips.append(h)
    h = f[3](f[2](h))
    for number, i in enumerate((4, 5), 1):
        h = f[i](gate(number, h, skips.pop()))
    return h


def painters(f, h, kind):
    """Layers as Painters: the middle layers skipped, reversed, replaced by their centre, or run side by side."""
    first, middle, last = f[:4], f[4:8], f[8:]
    h = stack(first, h, range(4))
    match kind:
        case "reverse":
            for layer in reversed(middle):
                h = layer(h)
        case "middle repeat":
            for _ in middle:
                h = middle[1](h)
        case "parallel" | "looped parallel":
            for _ in range(3 if kind == "looped parallel" else 1):
                given = [layer(h) for layer in middle]
                h = (given[0] + given[1] + given[2] + given[3]) / 4
    return stack(last, h, range(4))


def zamba(f, h):
    """Zamba2's kind: a shared layer in front of every layer that is listed as hybrid."""
    shared, own = f[8], f[:8]
    for index, layer in enumerate(own):
        if index in (1, 3, 5, 7):
            h = shared(h)
        h = layer(h)
    return h


def _ilr(*counts):
    return lambda f, h, mix, gate: loop_map(f, h, counts)


def _cycle(m, n, strategy="cycle"):
    return lambda f, h, mix, gate: takase_kiyono(f, h, m, n, strategy)


def _slices(*slices):
    return lambda f, h, mix, gate: half_open(f, h, slices)


def _core(sizes, r):
    return lambda f, h, mix, gate: prelude_core_coda(f, h, sizes, r)


def _middle(recursions, middle, per_layer=False):
    return lambda f, h, mix, gate: mixture_of_recursions(f, h, recursions, middle, per_layer)


def _painters(kind):
    return lambda f, h, mix, gate: painters(f, h, kind)


def _golf(start, end, extra):
    return lambda f, h, mix, gate: golf_loop(f, h, start, end, extra)


#: The catalogue's titles → what their sources run: f(layers, h, mix, gate) → h, or h and the exits.
TRANSCRIPTIONS = {
    "Standard": _slices((0, 6)),
    "LFT": lambda f, h, mix, gate: layer_feedback(f, h, 5),
    "ILR [4,2,1,1]": _ilr(4, 2, 1, 1),
    "ILR [3,2,2,1]": _ilr(3, 2, 2, 1),
    "ILR [2,2,2,2]": _ilr(2, 2, 2, 2),
    "ILR [1,2,2,3]": _ilr(1, 2, 2, 3),
    "ILR [1,1,2,4]": _ilr(1, 1, 2, 4),
    "ILR, first layer": _ilr(2, 1, 1, 1),
    "ILR, second layer": _ilr(1, 2, 1, 1),
    "ILR, third layer": _ilr(1, 1, 2, 1),
    "ILR, fourth layer": _ilr(1, 1, 1, 2),
    "ILR, large": _ilr(1, 2, 1, 1, 1, 1, 1, 1),
    "Block recurrence": lambda f, h, mix, gate: block_recurrence(f, h, 2, inject=False),
    "Block recurrence with injection": lambda f, h, mix, gate: block_recurrence(f, h, 2, inject=True),
    "Cycle": _cycle(6, 12),
    "Sequence": _cycle(6, 12, "sequence"),
    "Cycle (rev)": _cycle(6, 12, "cycle (rev)"),
    "ALBERT": _cycle(1, 12),
    "Universal Transformer": _cycle(6, 72),
    "MobileLLM-LS": lambda f, h, mix, gate: immediate_repeat(f, h),
    "Middle cycle x3": _middle(3, 10),
    "Middle cycle x2": _middle(2, 15),
    "Middle cycle x4": _middle(4, 7),
    "Middle sequence x3": _middle(3, 10, per_layer=True),
    "Huginn": lambda f, h, mix, gate: prelude_core_coda(f, h, (2, 4, 2), 32, lambda a, b: mix(1, a, b)),
    "Retrofitted TinyLlama": lambda f, h, mix, gate: prelude_core_coda([*f[:4], *f[10:]], h, (4, 8, 4), 4),
    "OLMo-2-1B 7-4-5": _core((7, 4, 5), 2),
    "Looped nanochat": _core((2, 4, 2), 4),
    "Ouro 1.4B": lambda f, h, mix, gate: ouro(f, h, 4),
    "Ouro 2.6B": lambda f, h, mix, gate: ouro(f, h, 4),
    "IQuest-40B-Loop": _cycle(80, 160),
    "Inkling-2-Mini": lambda f, h, mix, gate: inkling2(f, h, 6, 18, 3, lambda a, b: mix(1, a, b)),
    "LoopFormer": _cycle(3, 24),
    "HRM": lambda f, h, mix, gate: hrm(f, h, 4, 2, 2),
    "HRM-Text": lambda f, h, mix, gate: hrm_text(f, h, 4, 2, 3),
    "TRM": lambda f, h, mix, gate: trm(f, h, 6, 3),
    "RYS-XLarge": lambda f, h, mix, gate: relayered(f, h, 45, 52),
    "exllamav3 help text": lambda f, h, mix, gate: stack(f, h, [*range(0, 15 + 1), *range(11, 31 + 1)]),
    "PEFT docs": _slices((0, 4), (2, 5)),
    "Venus-120b": _slices((0, 20), (10, 30), (20, 40), (30, 50), (40, 60), (50, 70), (60, 80)),
    "Golf, 11 layers": _golf(4, 5, 1),
    "Golf, loop 45 x2": _golf(4, 5, 2),
    "Golf, 3-layer loop": _golf(3, 5, 2),
    "Golf 363, 9 layers": _golf(3, 5, 2),
    "Golf 363, 6 layers": _golf(2, 3, 4),
    "Golf 1096": _golf(1, 4, 2),
    "Golf 648": lambda f, h, mix, gate: stack(f, stack(f, h, [0, 1, 2] * 2), [3, 4, 5] * 2),
    "Golf 319": _cycle(5, 15),
    "Golf 1110": _cycle(3, 12),
    "U-Net skips": lambda f, h, mix, gate: unet(f, h, gate),
    "Painters, skip": _painters("skip"),
    "Painters, reverse": _painters("reverse"),
    "Painters, middle repeat": _painters("middle repeat"),
    "Painters, parallel": _painters("parallel"),
    "Painters, looped parallel": _painters("looped parallel"),
    "One shared layer, as in Zamba2": lambda f, h, mix, gate: zamba(f, h),
}
