"""Launch commands as compose overrides and Kubernetes patches, read back by a YAML reader."""

from typing import Any

import pytest
import yaml

from assay.report.patches import Launch, compose, kubernetes, parse, patches

PLAIN = "vllm serve model --max-num-seqs 8"
TUNED = 'OMP_NUM_THREADS=2 vllm serve model --max-num-seqs 64 --hf-overrides \'{"a": "$HOME"}\''


class _Reader(yaml.SafeLoader):
    """Knows the tag of Compose that removes a value."""


_Reader.add_constructor("!reset", lambda loader, node: "(reset)")


def _read(text: str) -> Any:
    return yaml.load(text, _Reader)


@pytest.mark.parametrize(
    ("command", "launch"),
    [
        ("", None),
        ("A=1", None),
        (PLAIN, Launch({}, ("vllm",), ("serve", "model", "--max-num-seqs", "8"))),
        ("A=1 B='x y' run", Launch({"A": "1", "B": "x y"}, ("run",), ())),
        ("cd /x && run", Launch({}, ("sh",), ("-c", "cd /x && run"))),
        ("run 'a|b'", Launch({}, ("run",), ("a|b",))),
        ("run 'unclosed", Launch({}, ("sh",), ("-c", "run 'unclosed"))),
    ],
)
def test_parts_of_a_command(command: str, launch: Launch | None) -> None:
    assert parse(command) == launch


def test_compose_and_kubernetes_start_the_same_command() -> None:
    before, after = parse(PLAIN), parse(TUNED)
    assert before is not None
    assert after is not None
    service = _read(compose(after, before))["services"]["server"]
    # Compose turns $$ into $.
    words = [one.replace("$$", "$") for one in (*service["entrypoint"], *service["command"])]
    assert words == ["vllm", *after.arguments]
    assert service["environment"] == {"OMP_NUM_THREADS": "2"}
    container = _read(kubernetes(after, before))["spec"]["template"]["spec"]["containers"][0]
    assert [*container["command"], *container["args"]] == ["vllm", *after.arguments]
    assert container["env"] == [{"name": "OMP_NUM_THREADS", "value": "2"}]


def test_the_inverse_removes_what_was_added() -> None:
    before, after = parse(PLAIN), parse(TUNED)
    assert before is not None
    assert after is not None
    service = _read(compose(before, after))["services"]["server"]
    assert service["command"] == list(before.arguments)
    assert service["environment"] == {"OMP_NUM_THREADS": "(reset)"}
    container = _read(kubernetes(before, after))["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == list(before.arguments)
    assert container["env"] == [{"name": "OMP_NUM_THREADS", "$patch": "delete"}]


def test_variables_of_kubernetes_are_kept_as_text() -> None:
    launch = parse("run '$(HOSTNAME)'")
    assert launch is not None
    container = _read(kubernetes(launch, launch))["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == ["$$(HOSTNAME)"]


def test_no_command_no_patch() -> None:
    assert patches("", PLAIN) == []
    assert [one.title for one in patches(PLAIN, TUNED)] == [
        "Launch command", "Docker Compose", "Kubernetes",
    ]  # fmt: skip
