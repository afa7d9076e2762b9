"""Options from files: the user's `config.toml`, and `assay.toml` of the folder one works in.

A table for each command holds its options by name; the command line overrides the environment,
which overrides the project's file, which overrides the user's:

    quiet = true
    [serve]
    port = 8080
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay.cli import verbosity
from assay.errors import InputError, unknown_name

VARIABLE: Final = "ASSAY_CONFIG"
PROJECT_FILE: Final = "assay.toml"
_MAX_BYTES: Final = 1 << 20
_GLOBAL: Final = ("verbose", "quiet")
_NOT_OF_PROJECTS: Final = {"serve": ("insecure", "api-key", "host")}
"""What a folder that somebody else wrote may not decide."""
DEFAULT_MEMBERS: Final = {"bench": "run"}
"""Groups that are commands, too: what `assay bench gemm` is short for."""


class Setting(NamedTuple):
    """A value and the file that states it; `command` is empty for options of every command."""

    command: str
    option: str
    value: Any
    path: Path


def paths() -> list[Path]:
    """The files that would be read, the user's first; `ASSAY_CONFIG` names the only one."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return [Path(chosen)] if chosen else []
    base = os.environ.get("XDG_CONFIG_HOME")
    user = (Path(base) if base else Path.home() / ".config") / "assay" / "config.toml"
    return [user, *_project()]


def _project() -> Iterator[Path]:
    """The `assay.toml` of this folder, else of the nearest folder above it that has one."""
    try:
        here = Path.cwd()
    except OSError:
        return
    for folder in (here, *here.parents):
        if (folder / PROJECT_FILE).is_file():
            yield folder / PROJECT_FILE
            return


def read(commands: Collection[str]) -> list[Setting]:
    """The settings of all files for these commands; a later one overrides an earlier one."""
    settings: list[Setting] = []
    chosen = os.environ.get(VARIABLE)
    for path in paths():
        if path.is_file():
            settings += _read(path, commands)
        elif chosen:
            raise InputError(f"{VARIABLE}: expected a file, got {path}")
    return settings


def _read(path: Path, commands: Collection[str]) -> Iterator[Setting]:
    import tomllib

    from assay.files import read_text

    try:
        data = tomllib.loads(read_text("configuration", path, _MAX_BYTES))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(
            f"{path}: expected TOML, got {str(error) or 'too deep a nesting'}"
        ) from None
    for name, value in data.items():
        if name in _GLOBAL:
            if not isinstance(value, bool):
                raise InputError(f"{path}: {name}: expected true or false, got {value!r}")
            yield Setting("", name, value, path)
        elif any(command.startswith(f"{name} ") for command in commands):
            yield from _read_group(path, name, value, commands)
        elif name not in commands:
            unknown = unknown_name("command", name, (*commands, *_GLOBAL))
            raise InputError(f"{path}: {unknown.message}", unknown.hint)
        else:
            yield from _read_options(path, name, value)


def _read_group(
    path: Path, group: str, tables: Any, commands: Collection[str]
) -> Iterator[Setting]:
    """The tables of a group of commands, such as `[trace.import]`."""
    if not isinstance(tables, dict):
        raise InputError(f"{path}: {group}: expected a table of commands, got {tables!r}")
    for member, options in tables.items():
        name = f"{group} {member}"
        if name not in commands and group in DEFAULT_MEMBERS and not isinstance(options, dict):
            yield from _read_options(path, f"{group} {DEFAULT_MEMBERS[group]}", {member: options})
            continue
        if name not in commands:
            unknown = unknown_name("command", name, commands)
            raise InputError(f"{path}: {unknown.message}", unknown.hint)
        yield from _read_options(path, name, options)


def _read_options(path: Path, command: str, options: Any) -> Iterator[Setting]:
    if not isinstance(options, dict):
        raise InputError(f"{path}: {command}: expected a table of options, got {options!r}")
    for option, value in options.items():
        _check_source(path, command, option)
        yield Setting(command, option, value, path)


def _check_source(path: Path, command: str, option: str) -> None:
    if path.name == PROJECT_FILE and option in _NOT_OF_PROJECTS.get(command, ()):
        raise InputError(
            f"{path}: {command}: {option} may not be set by the file of a project",
            "give it on the command line or in your own config.toml",
        )


def apply(root: Any, known: Mapping[str, Any], commands: Collection[str]) -> None:
    """Make the settings of the files the defaults of `known`, the commands of a program."""
    defaults: dict[str, Any] = {}
    for setting in read(commands):
        if not setting.command:
            _apply_global(setting)
        elif (command := known.get(setting.command)) is not None:
            parameter = find(command, setting)
            place = defaults
            for word in setting.command.split():
                place = place.setdefault(word, {})
            place[parameter.name] = _checked(parameter, setting)
    if defaults:
        root.context_settings["default_map"] = defaults


def _apply_global(setting: Setting) -> None:
    chosen = {"verbose": verbosity.Verbosity.VERBOSE, "quiet": verbosity.Verbosity.QUIET}
    verbosity.set_default(chosen[setting.option] if setting.value else verbosity.Verbosity.NORMAL)


def find(command: Any, setting: Setting) -> Any:
    """The option of a command that a setting names."""
    options = {
        opt.removeprefix("--"): parameter
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.expose_value
        for opt in parameter.opts
        if opt.startswith("--")
    }
    if setting.option not in options:
        error = unknown_name("option", setting.option, options)
        raise InputError(f"{setting.path}: {setting.command}: {error.message}", error.hint)
    return options[setting.option]


def _checked(parameter: Any, setting: Setting) -> Any:
    """The value of a setting, if its option takes it."""
    values = setting.value if isinstance(setting.value, list) else [setting.value]
    where = f"{setting.path}: {setting.command}: {setting.option}"
    if isinstance(setting.value, list) and not parameter.multiple:
        raise InputError(f"{where}: expected one value, got {len(values)}")
    for value in values:
        if parameter.is_flag != isinstance(value, bool) or isinstance(value, dict | list):
            expected = "true or false" if parameter.is_flag else "a text or a number"
            raise InputError(f"{where}: expected {expected}, got {value!r}")
        try:
            _convert(parameter, value)
        except Exception as error:
            # Typer's own errors can format themselves.
            if not hasattr(error, "format_message"):
                raise
            raise InputError(f"{where}: got {value!r}: {error.message.rstrip('.')}") from None  # type: ignore[attr-defined]
    return values if parameter.multiple else values[0]


def _convert(parameter: Any, value: Any) -> None:
    """Let Typer read one value; before 0.29 a parameter has a type, since then a coercion."""
    if hasattr(parameter, "type"):
        parameter.type.convert(value, parameter, None)
    elif not isinstance(value, bool):
        given = [str(value)] if parameter.multiple else str(value)
        parameter.get_runtime_param().coerce(given, param=parameter, ctx=None)


def environment_variable(command: str, option: str) -> str:
    """The environment variable of an option.

    >>> environment_variable("scenario-report", "--json")
    'ASSAY_SCENARIO_REPORT_JSON'
    >>> environment_variable("trace list", "--json")
    'ASSAY_TRACE_LIST_JSON'
    >>> environment_variable("bench run", "--device")
    'ASSAY_BENCH_DEVICE'
    """
    group, _, member = command.partition(" ")
    if DEFAULT_MEMBERS.get(group) == member:
        command = group
    name = f"ASSAY_{command}_{option.removeprefix('--')}"
    return name.replace("-", "_").replace(" ", "_").upper()


def read_environment(name: str, command: Any) -> None:
    """Let the options of a command, but for repeated ones, be set by environment variables."""
    for parameter in command.params:
        if (
            parameter.param_type_name == "option"
            and parameter.expose_value
            and not parameter.multiple
            and parameter.envvar is None
        ):
            parameter.envvar = environment_variable(name, parameter.opts[0])


def sources(command: Any, name: str, settings: Iterable[Setting]) -> Mapping[str, tuple[Any, str]]:
    """Each option of a command with its value and where that comes from."""
    files: dict[str, Setting] = {}
    for setting in settings:
        if setting.command == name:
            parameter = find(command, setting)
            _checked(parameter, setting)
            files[parameter.name] = setting
    values: dict[str, tuple[Any, str]] = {}
    for parameter in command.params:
        if parameter.param_type_name != "option" or not parameter.expose_value:
            continue
        value, source = parameter.default, "default"
        if parameter.name in files:
            value, source = files[parameter.name].value, str(files[parameter.name].path)
        if parameter.envvar and os.environ.get(parameter.envvar):
            value, source = os.environ[parameter.envvar], parameter.envvar
        option = parameter.opts[0]
        hidden = option == "--api-key" and value is not None
        values[option] = ("(hidden)" if hidden else value, source)
    return values
