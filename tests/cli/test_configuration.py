"""Options from files and the environment: precedence, errors, and `assay config`."""

from pathlib import Path

import pytest

from .conftest import Cli

FIXTURE = ("resolve", "econ.cost.per_token", "--preset", "dense_training_cost_fixture")


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file, which does not exist yet; one works in an empty folder."""
    monkeypatch.delenv("ASSAY_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    (tmp_path / "project" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "below")
    path = tmp_path / "user" / "assay" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def project(user: Path, tmp_path: Path) -> Path:
    """The project's file, in the folder above the one where one works."""
    return tmp_path / "project" / "assay.toml"


def source_of(cli: Cli, option: str) -> tuple[object, object]:
    rows = {row["option"]: row for row in cli("config", "serve", "--json").data["options"]}
    return rows[option]["value"], rows[option]["source"]


def test_precedence(cli: Cli, user: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert source_of(cli, "--port") == ("8000", "default")
    user.write_text("[serve]\nport = 1\n")
    assert source_of(cli, "--port") == ("1", str(user))
    project.write_text("[serve]\nport = 2\n")
    assert source_of(cli, "--port") == ("2", str(project))
    monkeypatch.setenv("ASSAY_SERVE_PORT", "3")
    assert source_of(cli, "--port") == ("3", "ASSAY_SERVE_PORT")


def test_file_environment_and_command_line_set_an_option(
    cli: Cli, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write_text('[resolve]\njson = true\npreset = "dense_training_cost_fixture"\n')
    assert cli("resolve", "econ.cost.per_token").data["target"]
    monkeypatch.setenv("ASSAY_RESOLVE_JSON", "false")
    assert not cli("resolve", "econ.cost.per_token").out.startswith("{")
    refused = cli("resolve", "econ.cost.per_token", "--preset", "no_such")
    assert 'unknown preset "no_such"' in refused.err


def test_a_group_that_is_a_command_too_has_its_options_in_its_own_table(
    cli: Cli, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write_text('[bench]\ndevice = "tpu"\n[bench.gate]\ndevice = "npu"\n')
    assert 'unknown device "tpu"' in cli("bench", "graph").err
    assert 'unknown device "npu"' in cli("bench", "gate", "graph").err
    monkeypatch.setenv("ASSAY_BENCH_DEVICE", "qpu")
    assert 'unknown device "qpu"' in cli("bench", "run", "graph").err


def test_repeated_option(cli: Cli, user: Path) -> None:
    user.write_text('[resolve]\nassign = ["gpu.power=1 W/GPU"]\n')
    assert cli("resolve", "gpu.power", "--json").data["value"] == 1.0


def test_verbosity_and_its_override(cli: Cli, user: Path) -> None:
    user.write_text("quiet = true\n")
    assert cli("serve", "synthetic", "--host", "").err.startswith("error: ")
    rows = cli("config", "--json").data["options"]
    assert rows == [{"command": "", "option": "--quiet", "value": "true", "source": str(user)}]
    assert cli("config", "--verbose").code == 0


def test_chosen_file_replaces_the_others(
    cli: Cli, user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.write_text("[serve]\nport = 1\n")
    monkeypatch.setenv("ASSAY_CONFIG", str(tmp_path / "mine.toml"))
    refused = cli("config")
    assert (refused.code, refused.err) == (
        2,
        f"error: ASSAY_CONFIG: expected a file, got {tmp_path / 'mine.toml'}\n",
    )
    (tmp_path / "mine.toml").write_text("[serve]\nport = 5\n")
    assert source_of(cli, "--port") == ("5", str(tmp_path / "mine.toml"))
    monkeypatch.setenv("ASSAY_CONFIG", "")
    assert cli("config").out == "\nno option is set by a file or the environment\n"


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("[serv]\n", 'unknown command "serv"', "did you mean serve?"),
        ("[serve]\nprot = 1\n", 'serve: unknown option "prot"', "did you mean port?"),
        ('[serve]\nport = "x"\n', "serve: port: got 'x': ", None),
        ("[serve]\nport = true\n", "serve: port: expected a text or a number, got True", None),
        ("[serve]\nport = [1, 2]\n", "serve: port: expected one value, got 2", None),
        ("[resolve]\njson = 1\n", "resolve: json: expected true or false, got 1", None),
        ("serve = 1\n", "serve: expected a table of options, got 1", None),
        ("quiet = 1\n", "quiet: expected true or false, got 1", None),
        ("[serve\n", "expected TOML, got", None),
        ("a = " + "[" * 5000, "expected TOML, got", None),
        ("[serve]\nmodel = 'x'\n", 'serve: unknown option "model"', None),
    ],
)
def test_wrong_files_are_refused(
    cli: Cli, user: Path, text: str, error: str, hint: str | None
) -> None:
    user.write_text(text)
    # The options of a command are checked when it runs, all of them by `config`.
    for words in (("config",), FIXTURE if "resolve" in error else ("serve", "no_such")):
        outcome = cli(*words)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err.startswith(f"error: {user}: {error}"), outcome.err
        if hint is not None:
            assert outcome.err.splitlines()[1] == f"hint: {hint}"


@pytest.mark.parametrize("option", ["insecure = true", 'api-key = "x"', 'host = "0.0.0.0"'])
def test_project_cannot_open_the_server(cli: Cli, project: Path, option: str) -> None:
    project.write_text(f"[serve]\n{option}\n")
    outcome = cli("serve", "synthetic")
    assert outcome.code == 2
    assert "may not be set by the file of a project" in outcome.err


def test_api_key_is_not_shown(cli: Cli, user: Path) -> None:
    user.write_text('[serve]\napi-key = "sesame"\n')
    for words in (("config",), ("config", "serve"), ("config", "--json")):
        outcome = cli(*words)
        assert outcome.code == 0
        assert "sesame" not in outcome.out
        assert "(hidden)" in outcome.out


def test_unknown_command(cli: Cli) -> None:
    outcome = cli("config", "srve")
    assert (outcome.code, outcome.err) == (
        2,
        'error: unknown command "srve"\nhint: did you mean serve?\n',
    )
