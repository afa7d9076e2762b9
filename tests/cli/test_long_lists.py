"""Long lists are cut, say how long they are, and are whole in JSON and with `--limit 0`."""

import re

import pytest

from .conftest import Cli

CONE = ("cone", "econ.cost.per_token")


def test_cone(cli: Cli) -> None:
    short, whole = cli(*CONE), cli(*CONE, "--limit", "0")
    data = cli(*CONE, "--json").data
    variables, relations = len(data["variables"]), len(data["relations"])
    said = f"40 of {variables:,} variables, 40 of {relations:,} relations; --limit 0 lists all"
    assert short.out.splitlines()[-1] == said
    # A reader who filters the output sees it on stderr.
    assert short.err == f"note: {said}\n"
    assert len(short.out.splitlines()) < 300 < variables < len(whole.out.splitlines())
    assert "--limit" not in whole.out + whole.err


@pytest.mark.parametrize(("words", "noun"), [((), "variables"), (("--relations",), "relations")])
def test_list(cli: Cli, words: tuple[str, ...], noun: str) -> None:
    outcome = cli("list", *words)
    found = len(cli("list", *words, "--json").data)
    said = f"40 of {found:,} {noun}; --limit 0 lists all"
    assert outcome.out.splitlines()[-1] == said
    assert outcome.err == f"note: {said}\n"
    assert len(outcome.out.splitlines()) < 300 < found
    assert len(cli("list", *words, "--limit", "0").out.splitlines()) > found
    assert len(cli("list", *words, "--limit", "3", "--json").data) == 3
    assert "--limit" not in cli("list", *words, "--filter", "pue").out


def test_short_cone_is_whole(cli: Cli) -> None:
    outcome = cli("cone", "thermal.dc.pue", "--depth", "1")
    assert "--limit" not in outcome.out + outcome.err


@pytest.mark.parametrize(("command", "noun"), [("root-debt", "roots"), ("next-work", "items")])
def test_rankings(cli: Cli, command: str, noun: str) -> None:
    outcome = cli(command)
    found = re.search(rf"^40 of ([\d,]+) {noun}; --limit 0 lists all$", outcome.out, re.MULTILINE)
    assert found is not None
    count = int(found[1].replace(",", ""))
    key = "rows" if command == "root-debt" else "items"
    assert len(cli(command, "--json").data[key]) == count
    assert len(cli(command, "--json", "--limit", "3").data[key]) == 3
    assert f"3 of {count:,} {noun}" in cli(command, "--limit", "3").out


def test_validation_prints_the_worst_cases(cli: Cli) -> None:
    outcome = cli("validate", "--suite", "megatron", "--limit", "2")
    [score, *_] = cli("validate", "--suite", "megatron", "--json").data["scores"]
    worst = sorted(score["rows"], key=lambda row: -abs(row["error"]))[:2]
    assert len(score["rows"]) > 2
    for row in score["rows"]:
        assert (f"  {row['case']}  " in outcome.out) == (row in worst)
    assert f"the worst 2 of {len(score['rows'])} cases; --limit 0 lists all" in outcome.out
    assert outcome.err.endswith("note: 2 cases of a suite at most; --limit 0 lists all\n")


@pytest.mark.parametrize("command", [CONE, ("list",), ("root-debt",), ("validate",)])
def test_negative_limit(cli: Cli, command: tuple[str, ...]) -> None:
    outcome = cli(*command, "--limit", "-1")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "error: limit: expected 0 or more, got -1\n"
