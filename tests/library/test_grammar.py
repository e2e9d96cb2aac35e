"""Grammars: bit for bit the published ones, immutable, checked."""

from __future__ import annotations

import inspect
import random
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selectivbench.errors import UsageError
from selectivbench.grammar import END, Grammar
from selectivbench.grammar.picture import svg, table
from selectivbench.grammar.presets import elman, preset, reber

from .golden import golden_files, load

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
DIGESTS = {
    (5, 4, 3): ("ac4c054d4ab53eb3", 0.84134754040594),
    (2, 8, 8): ("f982a19125484eb4", 1.2007085523692587),
    (1, 20, 20): ("c63841ee9b4b157a", 2.095134490068041),
    (3, 24, 24): ("9ecab9484361f150", 2.2597351386603215),
    (1, 40, 40): ("bd77dbb93e0780f4", 2.7761941580044383),
}
TRANSITIONS = {
    8: (225, 199, 215, 223),
    20: (3268, 3192, 3157, 3218),
    24: (5551, 5586, 5538, 5412),
    26: (7207, 7166, 7023, 7013),
    30: (10885, 10726, 10668, 10801),
    34: (15720, 15639, 15556, 15683),
    38: (22089, 21967, 22056, 21956),
    40: (25650, 25504, 25757, 25526),
}
UNREACHABLE = {(1, 20): 1, (2, 20): 0, (4, 20): 1, (1, 24): 0, (1, 8): 2, (2, 8): 3, (1, 40): 0}


@pytest.mark.parametrize("path", golden_files("grammar_*"))
def test_published_grammar_in_full(path):
    content = load(path)
    published = content["grammar"]
    ours = Grammar.random(content["seed"], **content["gramm"])
    assert list(ours.states) == published["states"]
    assert [ours.states[i] for i in ours.starts] == published["start_states"]
    assert [list(t) for t in ours.transitions] == published["transitions"]
    assert list(ours.symbols) == published["alphabet_sorted"]
    assert (
        dict(zip(ours.states, ours.state_id.tolist(), strict=True)) == content["unred_state_to_id"]
    )
    assert {x: i for i, x in enumerate(ours.symbols)} == content["red_state_to_id"]
    assert ours.topological_entropy == pytest.approx(
        content["topological_entropy_direct"], abs=1e-9
    )


@pytest.mark.parametrize(("which", "expected"), DIGESTS.items())
def test_digest_and_entropy(which, expected):
    seed, ambiguities, depth = which
    grammar = Grammar.random(seed, ambiguities=ambiguities, ambiguity_depth=depth)
    assert grammar.digest[:16] == expected[0]
    assert grammar.topological_entropy == pytest.approx(expected[1], abs=1e-9)


@pytest.mark.parametrize(("ambiguities", "counts"), TRANSITIONS.items())
def test_published_counts(ambiguities, counts):
    grammars = [Grammar.random(seed, ambiguities=ambiguities) for seed in (1, 2, 3, 4)]
    assert tuple(grammar.n_transitions for grammar in grammars) == counts
    assert {grammar.n_states for grammar in grammars} == {ambiguities**2 + 1}


@pytest.mark.parametrize(("which", "missing"), UNREACHABLE.items())
def test_unreachable_states_are_no_classes(which, missing):
    grammar = Grammar.random(which[0], ambiguities=which[1])
    assert grammar.n_states - grammar.n_classes == missing
    assert (grammar.class_of < 0).sum() == missing
    seen = np.sort(grammar.class_of[grammar.reachable])
    assert seen.tolist() == list(range(grammar.n_classes))
    assert grammar.class_of[grammar.end] == 0


def plain_draws(seed, p):
    """The published generator with NumPy's own calls, one by one."""
    rng = np.random.default_rng(seed)
    shuffler = random.Random(int(rng.integers(0, 100)))
    letters = list(LETTERS[: p["alphabet_size"] - 1])
    while True:
        shared = shuffler.sample(letters, p["ambiguities"]) if p["ambiguities"] else []
        states = [(x, x) for x in letters if x not in shared]
        states += [(x, f"{x}{i}") for x in shared for i in range(p["ambiguity_depth"])]
        states.append((END, END))
        edges = {}
        for _, source in states:
            for symbol in [*letters, END]:
                group = [name for emitted, name in states if emitted == symbol]
                pick = group[rng.permutation(len(group))[0]]
                if rng.random() < len(group) * p["transition_density"] and source != END:
                    edges.setdefault(source, set()).add(pick)
        names = [name for _, name in states]
        starts = rng.choice(names, p["initial_states"], replace=False).tolist()
        yield names, starts, edges


def plain_distances(edges, origin):
    """Steps from an origin to every state that it reaches."""
    distance, front = {origin: 0}, [origin]
    for state in front:
        for after in edges.get(state, ()):
            if after not in distance:
                distance[after] = distance[state] + 1
                front.append(after)
    return distance


def plain_valid(names, starts, edges, p):
    if END in starts:
        return False
    far = {name: plain_distances(edges, name) for name in names}
    exits = names if p["require_exit_from_all"] or not p["allow_unreachable_cycles"] else starts
    if any(END not in far[name] for name in exits):
        return False
    if any(far[start][END] < p["min_string_length"] for start in starts):
        return False
    everywhere = all(name in far[starts[0]] for name in names if name not in starts)
    return p["allow_unreachable_cycles"] or everywhere


parameters = st.fixed_dictionaries(
    {
        "alphabet_size": st.integers(3, 6),
        "ambiguities": st.integers(0, 2),
        "ambiguity_depth": st.integers(1, 4),
        "initial_states": st.integers(1, 2),
        "transition_density": st.sampled_from([0.25, 0.3, 0.45]),
        "min_string_length": st.integers(0, 3),
        "require_exit_from_all": st.booleans(),
        "allow_unreachable_cycles": st.booleans(),
    }
)


@given(st.integers(0, 2**40), parameters)
@settings(deadline=None, max_examples=40)
def test_every_parameter_draws_and_checks_as_published(seed, p):
    tries = zip(plain_draws(seed, p), range(60), strict=False)
    found = next((draw for draw, _ in tries if plain_valid(*draw, p)), None)
    if found is None:
        return  # rare: leave those that take long to the others
    ours = Grammar.random(seed, **p)
    names, starts, edges = found
    assert list(ours.states) == names
    assert [ours.states[i] for i in ours.starts] == starts
    assert {(s, t) for s, t, _ in ours.transitions} == {(s, t) for s in edges for t in edges[s]}
    assert all(chance == 1 / len(edges[s]) for s, _, chance in ours.transitions)


@given(st.integers(0, 10_000), st.integers(2, 6), st.booleans())
@settings(deadline=None, max_examples=30)
def test_a_dictionary_gives_an_equal_grammar_back(seed, ambiguities, exits):
    grammar = Grammar.random(seed, ambiguities=ambiguities, require_exit_from_all=exits)
    again = Grammar.from_dict(grammar.to_dict())
    assert again == grammar
    assert hash(again) == hash(grammar)
    assert len({grammar, again}) == 1


def test_content_decides_equality():
    assert Grammar.random(1, ambiguities=4) != Grammar.random(2, ambiguities=4)
    assert Grammar.random(1, ambiguities=4) != "a grammar"


@pytest.mark.parametrize("name", ["successor", "chance", "symbol_of"])
def test_a_grammar_cannot_be_changed(name):
    array = getattr(reber(), name)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ambiguity_depth": 0}, "ambiguity_depth: got 0"),
        ({"ambiguities": 60}, "alphabet_size: got 61"),
        ({"ambiguities": 5, "alphabet_size": 4}, "ambiguities: got 5, allowed: 0 to 3"),
        ({"initial_states": 65}, "initial_states: got 65, allowed: 1 to 64"),
        ({"initial_states": 0}, "initial_states"),
        ({"transition_density": 1.5}, "transition_density"),
        ({"transition_density": float("nan")}, "transition_density"),
        ({"transition_density": 0.002}, "raise transition_density"),
        ({"transition_density": 0.0}, "raise transition_density"),
        ({"min_string_length": 65}, "min_string_length"),
        ({"min_string_length": -1}, "min_string_length"),
        ({"ambiguity_depth": 2001}, "ambiguity_depth"),
    ],
)
def test_impossible_parameters_are_refused_at_once(given, words):
    with pytest.raises(UsageError, match=words):
        Grammar.random(1, **{"ambiguities": 8, **given})


def test_parameters_stand_in_the_published_order():
    names = list(inspect.signature(Grammar.random).parameters)
    assert names[:6] == [
        "seed", "alphabet_size", "ambiguities", "ambiguity_depth", "initial_states",
        "transition_density",
    ]  # fmt: skip
    assert Grammar.random(2, 9, 8, 8, 4, 0.05) == Grammar.random(2)


def test_a_negative_seed_is_refused():
    with pytest.raises(UsageError, match="grammar seed: got -1"):
        Grammar.random(-1)


@pytest.mark.parametrize(
    ("edges", "starts", "words"),
    [
        ([("A", "B", 1.0), ("B", "B", 1.0)], ["A"], "no way from"),
        ([("A", "#", 0.5)], ["A"], "sum to 0.5"),
        ([("A", "#", 1.0)], ["B"], "sum to 0"),
        ([("A", "#", 1.0)], [], "one or more states"),
        ([("A", "#", 1.0)], ["#"], "not the end"),
        ([("A", "A", -0.5), ("A", "#", 1.5)], ["A"], "negative"),
        ([("A", "A0", 0.5), ("A", "A1", 0.5)], ["A"], "two successors of 'A' emit 'A'"),
        ([("#", "A", 1.0), ("A", "#", 1.0)], ["A"], "sum to 2"),
    ],
)
def test_a_bad_grammar_of_ones_own_is_refused(edges, starts, words):
    with pytest.raises(UsageError, match=words):
        Grammar.from_transitions(edges, starts)


@pytest.mark.parametrize(
    ("change", "words"), [("missing", "no starts"), ("unknown", "did you mean")]
)
def test_a_bad_file_is_refused(change, words):
    content = reber().to_dict()
    if change == "missing":
        del content["starts"]
    else:
        content["transitions"][0][1] = "T00"
    with pytest.raises(UsageError, match=words):
        Grammar.from_dict(content)


def accepts(grammar, text):
    """Whether a string of one-letter symbols is grammatical."""
    symbols = [grammar.symbols.index(x) for x in (*text, END)]
    fronts = {i for i in grammar.starts if grammar.symbol_of[i] == symbols[0]}
    for symbol in symbols[1:]:
        fronts = {int(grammar.successor[i, symbol]) for i in fronts} - {-1}
    return bool(fronts)


@pytest.mark.parametrize("text", ["BTXSE", "BPVVE", "BTSSXXTVVE", "BPVPXVPSE", "BPTTVPSE"])
def test_reber_accepts_its_strings(text):
    assert accepts(reber(), text)


@pytest.mark.parametrize("text", ["BTXSX", "BTTE", "BVE", "BPSE", "TXSE"])
def test_reber_refuses_others(text):
    assert not accepts(reber(), text)


def test_elman_is_made_of_syllables():
    assert accepts(elman(), "badiiguuu")
    assert not accepts(elman(), "badi")


def test_presets_are_named():
    assert preset("elman") == elman()
    with pytest.raises(UsageError, match="did you mean 'reber'"):
        preset("rebber")


@pytest.mark.parametrize(
    "grammar",
    [reber(), elman(), Grammar.random(2, ambiguities=8), Grammar.random(1, ambiguities=12)],
)
def test_the_picture_is_well_formed_and_complete(grammar):
    root = ET.fromstring(svg(grammar))
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}path")) == grammar.n_transitions
    assert len(root.findall(f"{space}circle")) == grammar.n_states + 1  # the end has two rims
    names = [node.text for node in root.findall(f"{space}text")]
    assert sorted(names) == (sorted(grammar.states) if grammar.n_states <= 80 else [])


def test_a_name_cannot_break_out_of_the_picture():
    grammar = Grammar.from_transitions([("<script>", "#", 1.0)], ["<script>"])
    assert "<script>" not in svg(grammar)
    assert "&lt;script&gt;" in svg(grammar)


def test_the_table_shows_every_state():
    grammar = Grammar.random(2, ambiguities=8)
    lines = table(grammar).splitlines()
    assert len(lines) == 1 + grammar.n_states
    unreachable = [line.split()[0] for line in lines[1:] if line.split()[1] == "-"]
    assert len(unreachable) == 3
    starts = {line.split()[0] for line in lines if " yes " in line}
    assert starts == {grammar.states[i] for i in grammar.starts}


def test_entropy_of_a_graph_in_pieces():
    # two loops that do not reach each other: the greater growth rate counts
    edges = [("A", "A", 0.5), ("A", "#", 0.5)]
    edges += [("B", x, 1 / 3) for x in ("B", "C", "#")] + [("C", x, 1 / 3) for x in ("B", "C", "#")]
    grammar = Grammar.from_transitions(edges, starts=["A"])
    # end -> A only, A -> A, # and apart from them B, C -> B, C: growth 2 against the golden ratio
    assert grammar.topological_entropy == pytest.approx(np.log(2), abs=1e-9)
