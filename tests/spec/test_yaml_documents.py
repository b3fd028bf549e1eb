"""The YAML reader: data, positions, and problems with their positions."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vcjob.errors import SourceError
from vcjob.spec import yaml_reader
from vcjob.spec.document import MAX_DEPTH, Document
from vcjob.spec.problem import Problem
from vcjob.spec.source import MAX_BYTES, load_documents
from vcjob.spec.yaml_reader import MAX_ALIASED_NODES


def one(text: str) -> Document:
    (document,) = load_documents(text, "job.yaml")
    return document


def only_problem(text: str) -> Problem:
    (problem,) = one(text).problems
    return problem


def test_every_key_and_item_has_its_line_and_column() -> None:
    document = one("a: 1\nb:\n  - x\n  - c: {d: 2}\n")
    assert document.data == {"a": 1, "b": ["x", {"c": {"d": 2}}]}
    assert document.position(("a",)) == (1, 1)
    assert document.position(("b",)) == (2, 1)
    assert document.position(("b", 0)) == (3, 5)
    assert document.position(("b", 1)) == (4, 5)
    assert document.position(("b", 1, "c", "d")) == (4, 9)


def test_what_is_absent_is_placed_at_its_nearest_parent() -> None:
    document = one("a:\n  b: [1]\n")
    assert document.position(("a", "zzz", 3)) == (1, 1)
    assert document.position(("a", "b", 7)) == (2, 3)
    assert document.position(("a", 0)) == (1, 1)
    assert document.position(("zzz",)) == (1, 1)
    assert document.position(()) == (1, 1)


def test_python_data_has_no_position() -> None:
    assert Document.of({"a": 1}).position(("a",)) is None


def test_columns_count_characters_not_bytes() -> None:
    assert one('{"é😀": 1, "b": 2}').position(("b",)) == (1, 11)


def test_several_documents_keep_their_own_places() -> None:
    first, second = load_documents("a: 1\n---\n---\n# nothing\n---\nb: 2\n", "f")
    assert (first.data, second.data) == ({"a": 1}, {"b": 2})
    assert second.position(("b",)) == (6, 1)
    assert second.file == "f"


def test_empty_text_holds_no_documents() -> None:
    assert load_documents("", "f") == []
    assert load_documents("# only a comment\n", "f") == []


def test_a_problem_before_the_first_document_has_its_own_place_only() -> None:
    document = one("%YAML 9.9\n--- {}\n")
    assert [problem.line for problem in document.problems] == [1]
    assert document.position(("spec",)) is None


def test_a_duplicate_key_is_refused_and_the_first_is_kept() -> None:
    document = one("a: 1\nb:\n  c: 1\n  c: 2\n")
    (problem,) = document.problems
    assert document.data == {"a": 1, "b": {"c": 1}}
    assert (problem.path, problem.line, problem.column, problem.file) == ("b.c", 4, 3, "job.yaml")
    assert "twice" in problem.message
    assert "line 3" in problem.message
    assert problem.hint


def test_duplicate_keys_are_found_whatever_their_spelling() -> None:
    assert only_problem("yes: 1\ntrue: 2\n").path == "true"
    assert only_problem("1: a\n0x1: b\n").path == "1"


@pytest.mark.parametrize(
    "text", ["[" * 30_000, "{a: " * 30_000, "- " * 30_000, "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)]
)
def test_nesting_beyond_the_limit_is_refused_with_its_place(text: str) -> None:
    problem = only_problem(text)
    assert "deeper than 100" in problem.message
    assert problem.line == 1
    assert problem.column is not None


def test_nesting_at_the_limit_is_accepted() -> None:
    document = one("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert document.problems == []


def test_aliases_are_copies_that_share_nothing() -> None:
    data = one("a: &x {k: [1]}\nb: *x\nc: *x\n").data
    assert data["b"] == data["c"] == {"k": [1]}
    data["b"]["k"].append(2)
    assert data["a"] == data["c"] == {"k": [1]}


def test_aliased_values_keep_the_places_of_their_anchor() -> None:
    assert one("a: &x {k: 1}\nb: *x\n").position(("b", "k")) == (1, 8)


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 20)]
    problem = only_problem("\n".join(lines))
    assert f"more than {MAX_ALIASED_NODES}" in problem.message
    assert (problem.line, problem.path) == (5, "a4[7]")


def test_aliases_may_expand_up_to_the_limit() -> None:
    items = ",".join(["x"] * 999)
    copies = ",".join(["*a"] * (MAX_ALIASED_NODES // 1000))
    assert one(f"a: &a [{items}]\nb: [{copies}]").problems == []
    assert one(f"a: &a [{items}]\nb: [{copies},*a]").problems


def test_aliases_cannot_nest_beyond_the_depth_limit() -> None:
    lines = ["a0: &a0 " + "[" * 40 + "]" * 40]
    lines += [f"a{i}: &a{i} " + "[" * 40 + f"*a{i - 1}" + "]" * 40 for i in range(1, 4)]
    problem = only_problem("\n".join(lines))
    assert "deeper than" in problem.message
    assert problem.line == 3


@pytest.mark.parametrize(("brackets", "accepted"), [(MAX_DEPTH - 10, True), (MAX_DEPTH - 9, False)])
@pytest.mark.parametrize("value", ["[" * 9 + "]" * 9, "{k: " * 9 + "}" * 9])
def test_the_depth_of_an_aliased_value_counts_from_where_it_is_used(
    brackets: int, accepted: bool, value: str
) -> None:
    document = one(f"a: &x {value}\nb: {'[' * brackets}*x{']' * brackets}\n")
    assert (document.problems == []) is accepted


def test_an_alias_inside_its_own_anchor_is_refused() -> None:
    problem = only_problem("a: &x [*x]")
    assert "own anchor" in problem.message
    assert (problem.path, problem.column) == ("a[0]", 8)


def test_an_alias_without_an_anchor_is_refused() -> None:
    assert "no anchor" in only_problem("a: *x").message
    assert [d.problems != [] for d in load_documents("a: &x 1\n---\nb: *x\n")] == [False, True]


def test_merge_keys_fill_in_what_is_not_there() -> None:
    document = one("a: &a {x: 1, z: 1}\nb: &b {x: 2, w: 2}\nc:\n  z: 3\n  <<: [*a, *b]\nd: {<<: *b}\n")
    assert document.data["c"] == {"z": 3, "x": 1, "w": 2}
    assert document.data["d"] == {"x": 2, "w": 2}
    assert document.position(("c", "w")) == (2, 14)


def test_a_quoted_merge_sign_is_a_plain_key() -> None:
    assert one("{'<<': 1}").data == {"<<": 1}


@pytest.mark.parametrize("text", ["a: {<<: 1}", "a: {<<: [1]}"])
def test_merging_a_value_that_is_not_a_mapping_is_refused(text: str) -> None:
    assert "can merge mappings only" in only_problem(text).message


@pytest.mark.parametrize(
    ("text", "what"),
    [("? [a]\n: b", "not text"), ("~: 1", "empty"), ("'': 1", "empty"), ("? {a: 1}\n: b", "not text")],
)
def test_a_key_that_is_not_text_is_refused_and_left_out(text: str, what: str) -> None:
    document = one(f"ok: 1\n{text}\n")
    assert document.data == {"ok": 1}
    assert what in document.problems[0].message
    assert document.problems[0].line == 2


def test_keys_that_yaml_takes_for_numbers_are_text() -> None:
    assert one("1: a\n2.5: b\nyes: c\noff: d\n").data == {"1": "a", "2.5": "b", "true": "c", "false": "d"}


@pytest.mark.parametrize(
    "value", [".inf", "-.inf", ".nan", "18446744073709551616", "-9223372036854775809", "1e30"]
)
def test_numbers_that_json_cannot_express_are_refused(value: str) -> None:
    problem = only_problem(f"a: {value}")
    assert (problem.path, problem.line, problem.column) == ("a", 1, 4)
    assert "quotes" in (problem.hint or "")


@pytest.mark.parametrize("value", ["18446744073709551615", "-9223372036854775808"])
def test_numbers_of_64_bits_are_kept(value: str) -> None:
    assert one(f"a: {value}").data == {"a": int(value)}


@pytest.mark.parametrize("tag", ["!!python/object:os.system", "!!binary", "!x", "!!set", "!!omap"])
@pytest.mark.parametrize("value", ["x", "{a: 1}", "[1]"])
def test_unknown_tags_are_refused(tag: str, value: str) -> None:
    problem = only_problem(f"a: {tag} {value}")
    assert tag in problem.message
    assert problem.path == "a"


def test_known_tags_are_obeyed() -> None:
    text = "a: !!str 5\nb: !!int 5\nc: !!float 5\nd: !!bool yes\ne: !!null ~\nf: !!map {}\ng: !!seq []\nh: !!int '7'"
    assert one(text).data == {"a": "5", "b": 5, "c": 5, "d": True, "e": None, "f": {}, "g": [], "h": 7}


@pytest.mark.parametrize("text", ["!!int x", "!!bool 1", "!!float x", "!!null x"])
def test_a_value_that_is_not_what_its_tag_says_is_refused(text: str) -> None:
    assert "is tagged" in only_problem(f"a: {text}").message


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a: b: c", 1, 5, "`:`"),
        ("a:\n\t- b", 2, 1, "a value cannot start"),
        ("a: [1, 2", 2, 1, "not closed"),
        ("a: {b: 1", 2, 1, "not closed"),
        ("a:\n  - b\n c: 1", 3, 2, "key"),
        ("a: 'b", 1, 6, "ends unexpectedly"),
        ("a: @b", 1, 4, "a value cannot start"),
        ("a: %b", 1, 4, "a value cannot start"),
        ("- a\nb: 1", 2, 1, "list item"),
        ("a: !x!y b", 1, 4, "tag"),
    ],
)
def test_bad_syntax_is_refused_with_line_column_and_a_way_out(
    text: str, line: int, column: int, words: str
) -> None:
    problem = load_documents(text, "f")[-1].problems[-1]
    assert (problem.line, problem.column, problem.file, problem.path) == (line, column, "f", "")
    assert words in problem.message
    assert problem.message.startswith("not valid YAML: ")
    assert problem.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a: 1\nkind： Job\nb:\n  c: 1\n", "write `:` in place of the full-width character `：` on line 2"),
        ("a:\n  - name: x\n    replicas：2\n    b: 1\n", "the full-width character `：` on line 3"),
        ("a: ['x'，'y']", "write `,` in place of the full-width character `，` on line 1"),
        ("a: [“x: y”]: 1", 'write `"` in place of the full-width character `“` on line 1'),
        (
            "a:\n\u3000b:\n    c: 1\n  d: 2\n",
            "write spaces in place of the full-width space (U+3000) on line 2",
        ),
        ("a:\n  b: |\n    x：1\n  c：2\n  d: 1\n", "the full-width character `：` on line 4"),
    ],
)
def test_a_full_width_character_in_the_place_of_one_of_yaml_is_named(text: str, hint: str) -> None:
    assert hint in (load_documents(text, "f")[-1].problems[-1].hint or "")


@pytest.mark.parametrize(
    "text",
    [
        "# 注：一\na: b: c",
        "a: 说明：一\nb: c: d",
        "a: '：，' : c: d",
        "a: “训练”任务\nb:\n  c: 1\n d: 2\n",
        'a: "他说“好”，走"\nb:\n  c: 1\n d: 2\n',
        'b:\n# 先用 "vcjob run"，然后\n  c: 1\n d: 2\n',
        "b:\n  c: 1\n d: “训练”，完  # “注”，完\n",
        "a: |\n  说明\n\n  GPU：8 张\n  \u3000\u3000段落\nb:\n  c: 1\n d: 2\n",
        "a:\n- >-\n  GPU：8 张\nb:\n  c: 1\n d: 2\n",
    ],
)
def test_a_full_width_character_in_text_is_no_cause(text: str) -> None:
    assert "full-width" not in (load_documents(text, "f")[-1].problems[-1].hint or "")


def test_what_stood_before_a_syntax_error_is_still_there() -> None:
    first, second = load_documents("a: 1\n---\nb: [", "f")
    assert first.data == {"a": 1}
    assert first.problems == []
    assert second.data is None
    assert len(second.problems) == 1


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\x7f", "\x84", "\ud800", "\ufffe", "\ufeff"])
def test_characters_that_yaml_forbids_are_named_with_their_place(character: str) -> None:
    problem = only_problem(f"a: 1\nb: x{character}\n")
    assert (problem.line, problem.column) == (2, 5)
    assert f"U+{ord(character):04X}" in problem.message


def test_a_leading_byte_order_mark_is_no_problem() -> None:
    assert one("\ufeffa: 1").data == {"a": 1}


def test_json_is_accepted_with_tabs_and_paired_escapes() -> None:
    text = '{\n\t"a": "\\ud83d\\ude00 \\/ \\u00e9",\n\t"b":[1,2.50,true,null]\n}'
    document = one(text)
    assert document.data == {"a": "😀 / é", "b": [1, 2.5, True, None]}
    assert document.position(("b", 1)) == (3, 9)


def test_a_file_of_too_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert yaml_reader.MAX_NODES == 1_000_000
    monkeypatch.setattr(yaml_reader, "MAX_NODES", 6)
    assert one("[[1, 2, 3], {a: 1}]").problems == []
    problem = only_problem("a: 1\nb: [1, 2, 3]\nc: [1]\n")
    assert "more than 6 values" in problem.message
    assert problem.line == 1


def test_text_that_is_too_large_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(SourceError, match="larger than 4 MiB"):
        load_documents("a" * (MAX_BYTES + 1), "f")


# kubectl reads these otherwise than PyYAML does.
_OTHERWISE = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=12)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | _OTHERWISE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_OTHERWISE.filter(bool), inner, max_size=3),
    max_leaves=12,
)


@given(_VALUES)
def test_what_is_written_as_json_is_read_back(value: Any) -> None:
    document = Document.of({"v": value})
    assert [d.data for d in load_documents(json.dumps({"v": value}))] == [document.data] == [{"v": value}]


@given(_VALUES)
def test_what_is_written_as_quoted_yaml_is_read_back_with_a_place_for_every_value(value: Any) -> None:
    text = yaml.safe_dump({"v": value}, default_style='"', allow_unicode=False)
    # In this style numbers and booleans carry tags, which are honoured as well.
    document = one(text)
    assert document.problems == []
    assert document.data == {"v": value}
    assert all(document.position(where) for where in _paths(value, ("v",)))


def _paths(value: Any, where: tuple[Any, ...]) -> Any:
    yield where
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from _paths(inner, (*where, key))
