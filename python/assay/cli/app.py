"""The `assay` program: parses the command line, runs one command, prints its report, exits.

Only the module of the requested command is imported: a query of the model does not import NumPy.
"""

import contextlib
import errno
import gc
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

from assay.cli import verbosity
from assay.cli.output import Report, prepare_streams, show, show_error, stdout_errors
from assay.errors import AssayError, InputError, unknown_name
from assay.escaping import one_line
from assay.paths import scratch
from assay.spoken_options import command_line

if TYPE_CHECKING:
    import typer

COMMANDS: Final = {
    "run": "run",
    "stats": "model",
    "verify": "health",
    "audit": "health",
    "list": "model",
    "show": "model",
    "cone": "model",
    "walk": "walk",
    "ask": "ask",
    "resolve": "answer",
    "solve": "choose",
    "minimize": "choose",
    "sweep": "choose",
    "pareto": "pareto",
    "explain": "answer",
    "receipt": "receipt",
    "diff": "compare",
    "sensitivity": "compare",
    "estimate": "estimate",
    "predict": "predict",
    "predict-load": "predict_load",
    "predict-speech": "predict_speech",
    "predict-workload": "predict_workload",
    "plan": "plan",
    "root-debt": "health",
    "scenario-report": "scenarios",
    "scenario-audit": "scenarios",
    "root": "atlas",
    "atlas": "atlas",
    "next-work": "health",
    "catalog": "catalog",
    "validate": "validate",
    "export": "export",
    "pull": "models",
    "models": "models",
    "generate": "generate",
    "chat": "chat",
    "serve": "serve",
    "embed": "embed",
    "speak": "speak",
    "talk": "talk",
    "perplexity": "perplexity",
    "transcribe": "transcribe",
    "trace capture": "trace_capture",
    "trace attach": "trace_attach",
    "trace list": "trace_files",
    "trace import": "trace_files",
    "trace export": "trace_files",
    "trace diff": "trace_diff",
    "trace show": "trace_show",
    "trace summary": "trace_summary",
    "trace steps": "trace_steps",
    "telemetry record": "telemetry_record",
    "telemetry watch": "telemetry_watch",
    "calibrate": "calibrate",
    "diagnose": "diagnose",
    "whatif": "whatif",
    "causal-profile": "causal_profile",
    "load": "load",
    "gate": "gate",
    "levers list": "levers",
    "levers show": "levers",
    "levers check": "levers",
    "runs list": "runs",
    "runs show": "runs",
    "runs compare": "runs",
    "store init": "store",
    "store status": "store",
    "store push": "store",
    "store pull": "store_pull",
    "store list": "store",
    "store find": "store",
    "store verify": "store",
    "store tag": "store",
    "store remove": "store",
    "store gc": "store_gc",
    "store key": "store",
    "jobs list": "jobs",
    "jobs status": "jobs",
    "jobs logs": "jobs",
    "jobs cancel": "jobs",
    "jobs attach": "jobs",
    "rollback": "rollback",
    "ui": "ui",
    "mcp": "mcp",
    "report": "report",
    "verify-report": "report",
    "bench run": "bench",
    "bench list": "bench_list",
    "bench compare": "bench_results",
    "bench reproduce": "bench_results",
    "bench gate": "bench_results",
    "bench table": "bench_results",
    "bench manifest": "bench_data",
    "bench profile": "bench_profile",
    "doctor": "doctor",
    "cache": "cache",
    "config": "config",
    "completion": "completion",
}
"""Every command and its module in this package, in the order of the help text.

The first word of a command of two words is a group.
"""

GROUPS: Final = {
    "trace": "Record, read and compare traces of what ran, and when.",
    "telemetry": "Record and watch what the machine is like.",
    "levers": "List, show and check the levers that a run may try.",
    "runs": "List, show and compare runs of the loop.",
    "store": "Share runs, traces and results in a folder or a bucket.",
    "jobs": "Follow and cancel jobs of a Ray cluster (--on).",
    "bench": "Measure claims beside ceilings and rivals.",
}
"""The groups of commands, and their help."""

_QUERIES: Final = (
    "answer",
    "ask",
    "choose",
    "compare",
    "estimate",
    "model",
    "predict",
    "receipt",
    "scenarios",
)
"""Modules whose commands own no device, thread, process or temporary file."""

_FOREIGN: Final = ("generate", "chat", "serve")
"""Modules whose commands understand options of other programs."""

EXIT_INTERNAL: Final = 70
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141
EXIT_CODES: Final = {
    0: "answered",
    1: "answered, but a requested check failed",
    2: "bad input: unknown names, wrong units, contradictory values, or no solution",
    3: "inputs are missing, and listed; of assay run: the engine gave no data; of gates: undecided",
    4: "assay run, assay gate: the engine was lost",
    5: "assay run: changes were rolled back",
    EXIT_INTERNAL: "internal error: a bug in Assay",
    EXIT_INTERRUPTED: "interrupted",
    EXIT_BROKEN_PIPE: "broken pipe: the reader of stdout closed it",
}

_GLOBAL_FLAGS: Final = ("--verbose", "-v", "--quiet", "-q")

ABOUT: Final = "What a GPU workload should do, what it does, and why they differ."
EPILOG: Final = (
    "Results go to stdout, progress and notes to stderr. Exit codes: 0 success, 1 a check failed, "
    "2 bad input, 3 inputs missing."
)


def main() -> NoReturn:
    """Run the program with the arguments of the process."""
    # Loading allocates many objects and no garbage: collections took a tenth of a short run.
    gc.set_threshold(200_000, 20, 50)
    code = run(sys.argv[1:])
    if sys.argv[1:] and COMMANDS.get(sys.argv[1]) in _QUERIES and sys.getprofile() is None:
        # The objects of a query hold nothing but memory; to free them one by one takes a fifth
        # of its time.
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> None:
    """End the process at once, unless a stream still has something to say that fails."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; every exception becomes an exit code."""
    prepare_streams()
    verbosity.reset()
    try:
        with command_line():
            code = _run(list(arguments))
        with stdout_errors():
            sys.stdout.flush()
        return code
    except AssayError as error:
        show_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return EXIT_BROKEN_PIPE
    except (OSError, MemoryError) as error:
        _abandon_stdout()
        show_error(_system_error(error))
        return AssayError.exit_code
    except Exception as error:
        return _internal_error(error)


def _abandon_stdout() -> None:
    """Redirect the rest of stdout's buffer to /dev/null, or Python fails again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _system_error(error: OSError | MemoryError) -> AssayError:
    if isinstance(error, MemoryError) or error.errno == errno.ENOMEM:
        return AssayError(
            "memory: expected enough for this command, got none left on this machine",
            "a smaller model, context or batch takes less; ulimit -v and containers limit memory, too",
        )
    reason = error.strerror or str(error)
    return AssayError(f"{error.filename}: {reason}" if error.filename else reason)


def _internal_error(error: Exception) -> int:
    if os.environ.get("ASSAY_TRACEBACK"):
        import traceback

        traceback.print_exception(error)
    show_error(
        AssayError(
            f"internal error: {type(error).__name__}: {error}",
            "this is a bug in Assay, not in your input; ASSAY_TRACEBACK=1 prints the traceback",
        )
    )
    return EXIT_INTERNAL


def _run(arguments: list[str]) -> int:
    first = arguments[0] if arguments else "--help"
    if first == "--version":
        from assay import __version__

        sys.stdout.write(f"assay {__version__}\n")
        return 0
    if os.environ.get("_ASSAY_COMPLETE"):
        return _complete()
    # Options of every command may stand before its name.
    words = [word for word in arguments if word not in _GLOBAL_FLAGS]
    command = words[0] if words else "--help"
    if command in GROUPS:
        return _run_group(command, words[1:2], arguments)
    if command in COMMANDS:
        return _invoke([command], arguments)
    if command in ("--help", "-h"):
        return _invoke(list(COMMANDS), ["--help"])
    first = command
    known = ("--help", "--version", "--verbose", "--quiet") if first.startswith("-") else ()
    kind = "option" if known else "command"
    error = unknown_name(kind, first, known or (*COMMANDS, *GROUPS))
    error.hint = error.hint or "assay --help lists the commands"
    raise error


def _run_group(group: str, second: list[str], arguments: list[str]) -> int:
    """Run a command of a group; the group alone prints its help."""
    members = [name for name in COMMANDS if name.startswith(f"{group} ")]
    if not second or second[0] in ("--help", "-h"):
        return _invoke(members, [group, "--help"])
    command = f"{group} {second[0]}"
    if command not in COMMANDS:
        from assay.cli.configuration import DEFAULT_MEMBERS

        if group in DEFAULT_MEMBERS:
            # Options of every command may stand before the group.
            place = arguments.index(group) + 1
            whole = [*arguments[:place], DEFAULT_MEMBERS[group], *arguments[place:]]
            return _invoke([f"{group} {DEFAULT_MEMBERS[group]}"], whole)
        error = unknown_name("command", command, members)
        error.hint = error.hint or f"assay {group} --help lists the commands"
        raise error
    return _invoke([command], arguments)


def _complete() -> int:
    """Answer a shell that asks for completions; only the module of a known command is imported."""
    # Typer does not export it by name.
    completion: Any = import_module("typer.completion")
    completion.completion_init()
    words = os.environ.get("COMP_WORDS", os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()
    known = [name for name in COMMANDS if name.split() == words[1 : 1 + len(name.split())]]
    program(known or list(COMMANDS)).main(
        args=[], prog_name="assay", complete_var="_ASSAY_COMPLETE", standalone_mode=False
    )
    return 0


def _end_abandoned_runs(command: str) -> None:
    """Restore the safe state of runs whose processes all died; without such runs it is one stat."""
    if os.path.exists(scratch() / "runs" / "active"):
        from assay.cli.output import show_note
        from assay.runs.abandoned import start_ending_abandoned

        # What changes engines itself ends such runs first.
        if command not in ("run", "rollback"):
            start_ending_abandoned(show_note)


def _invoke(commands: Sequence[str], arguments: list[str]) -> int:
    from assay.cli import configuration

    if len(commands) == 1:
        _end_abandoned_runs(commands[0])
    command = program(commands)
    configuration.apply(command, by_name(command), COMMANDS)
    if len(commands) == 1 and COMMANDS[commands[0]] in _FOREIGN:
        from assay.cli.foreign_options import translate

        options = by_name(command)[commands[0]].params
        own = [name for option in options for name in (*option.opts, *option.secondary_opts)]
        arguments = translate(commands[0], arguments, own)
    try:
        result = command.main(args=arguments, prog_name="assay", standalone_mode=False)
    except SystemExit as error:
        # Typer ends the program with 1 when a reader closed the pipe.
        if isinstance(error.__context__, BrokenPipeError):
            raise error.__context__ from None
        raise
    except Exception as error:
        # Typer's own errors, whichever library they come from, can format themselves.
        if not hasattr(error, "format_message"):
            raise
        name = commands[0] if len(commands) == 1 else "--help"
        raise usage_error(error, f"assay {name}") from None
    if isinstance(result, Report):
        return show(result)
    return result if isinstance(result, int) else 0


def program(commands: Sequence[str]) -> Any:
    """The program with these commands only; each has the options of every command."""
    from typer.main import get_command

    from assay.cli import on_cluster
    from assay.cli.configuration import read_environment
    from assay.cli.global_options import add_options
    from assay.cli.text_values import keep_text

    root: Any = get_command(_application(commands))
    add_options(root)
    keep_text(root)
    for group in GROUPS:
        if group in root.commands:
            add_options(root.commands[group])
            keep_text(root.commands[group])
    for name, command in by_name(root).items():
        add_options(command)
        if name in on_cluster.COMMANDS:
            on_cluster.add_on(name, command)
        read_environment(name, command)
        keep_text(command)
    return root


def by_name(root: Any) -> dict[str, Any]:
    """The commands of a program by their whole names, in the order of the help text."""
    commands = {}
    for name in COMMANDS:
        command = root
        for word in name.split():
            command = getattr(command, "commands", {}).get(word)
        if command is not None:
            commands[name] = command
    return commands


def _application(commands: Sequence[str]) -> "typer.Typer":
    import typer

    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    )

    def start(
        version: Annotated[
            bool, typer.Option("--version", help="Print the version and exit.")
        ] = False,
    ) -> None:
        # A callback keeps Typer from promoting a lone command; `_run` prints the version.
        del version

    app.callback(help=ABOUT, epilog=EPILOG)(start)
    groups: dict[str, typer.Typer] = {}
    for name in commands:
        module = import_module(f"assay.cli.{COMMANDS[name]}")
        function = getattr(module, f"{re.sub('[- ]', '_', name)}_command")
        group, _, member = name.rpartition(" ")
        if not group:
            app.command(name)(function)
            continue
        if group not in groups:
            groups[group] = typer.Typer(rich_markup_mode=None, help=GROUPS[group])
            # A callback keeps Typer from promoting a lone command.
            groups[group].callback()(lambda: None)
            app.add_typer(groups[group], name=group)
        groups[group].command(member)(function)
    return app


def usage_error(error: Any, path: str) -> InputError:
    """Convert a usage error of Typer to an InputError.

    Typer versions use different click libraries, so errors are distinguished by their attributes.
    """
    hint = f"{path} --help describes its arguments"
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):
        context = getattr(error, "ctx", None)
        known = [name for p in context.command.params for name in p.opts] if context else []
        unknown = unknown_name("option", option, known)
        return InputError(f"{unknown.message} of {path}", unknown.hint or hint)
    message = one_line(error.format_message()).rstrip(".")
    return InputError(message[:1].lower() + message[1:], hint)
