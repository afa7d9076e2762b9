"""The tools of `assay mcp`: commands that only read, as functions an assistant can call.

A tool runs the command of its name in this process and returns what a person would see, below the
command line that prints it: the number, its interval, what was assumed, what does not hold. Beside it
is what `--json` prints, so that nobody reads numbers out of text.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent
from pydantic import Field

from assay.cli.output import Report, json_text, kept_reports
from assay.errors import InputError, MissingInputsError

Preset = Annotated[
    str | None, Field(description="A built-in scenario; find lists them. Most variables need one.")
]
Values = Annotated[
    list[str] | None,
    Field(description="Given values, each NAME=VALUE UNIT, such as gpu.clock=1.5 GHz."),
]
Entries = Annotated[
    list[str] | None,
    Field(description="Catalog entries to take values of, each GROUP/NAME: grids/france."),
]
Variable = Annotated[str, Field(description="The full name of a variable: econ.cost.per_token.")]
Model = Annotated[str, Field(description="A model of the catalog, such as llama-3.1-8b.")]
Gpu = Annotated[str, Field(description="An accelerator of the catalog, such as h200.")]
Option = str | int | float | bool | Sequence[str] | None

REFUSED: Final = (InputError.exit_code, MissingInputsError.exit_code, 70)
"""Exit codes with which there is no answer; a failed check has one."""
MOST_CHARACTERS: Final = 16_000
"""Of an answer: an assistant reads all of it."""
MOST_REFUSED: Final = 3_000
"""Of a refusal, which may list hundreds of missing inputs."""
_one_at_a_time: Final = threading.Lock()
"""What a command prints is caught for the whole process."""


def ask(
    question: Annotated[str, Field(description="One question in plain words.")],
) -> CallToolResult:
    """Answer a question about GPU workloads in words, or refuse it with the nearest command.

    Does a model fit, how many GPUs, how long, what does it cost, which is cheaper or faster, what
    limits, latency at a rate, energy, emissions. Start here; the other tools take exact names.
    """
    return _run("ask", [question])


def find(
    text: Annotated[str, Field(description="Words of a name or meaning, such as cost token.")],
    what: Annotated[
        Literal["variables", "presets", "relations", "catalog"],
        Field(description="Where to look; catalog has accelerators, models, grids, prices."),
    ] = "variables",
    limit: Annotated[
        int | None, Field(description="Rows at most, 0 for all; 40 if not given.", ge=0)
    ] = None,
) -> CallToolResult:
    """Find the names that the other tools take."""
    if what == "catalog":
        return _run("catalog", ["list"], filter=text, limit=limit)
    presets, relations = what == "presets", what == "relations"
    return _run("list", filter=text, presets=presets, relations=relations, limit=limit)


def resolve(
    variable: Variable, preset: Preset = None, values: Values = None, entries: Entries = None
) -> CallToolResult:
    """Compute a variable of the model with its interval, and say what is missing or does not hold."""
    return _run("resolve", [variable], preset=preset, set=values, with_=entries)


def explain(
    variable: Variable,
    preset: Preset = None,
    values: Values = None,
    entries: Entries = None,
    depth: Annotated[int, Field(description="Levels below the variable.", ge=0)] = 2,
) -> CallToolResult:
    """Say where a value comes from: the values, equations and sources below it."""
    return _run("explain", [variable], preset=preset, set=values, depth=depth, with_=entries)


def sensitivity(
    variable: Variable,
    preset: Preset = None,
    values: Values = None,
    entries: Entries = None,
    limit: Annotated[int, Field(description="Inputs at most.", ge=1)] = 15,
) -> CallToolResult:
    """List which inputs move a variable most."""
    return _run("sensitivity", [variable], preset=preset, set=values, limit=limit, with_=entries)


def predict(
    model: Model,
    gpu: Gpu,
    batch: Annotated[int, Field(description="Sequences that decode in the step.", ge=0)] = 1,
    context: Annotated[int, Field(description="Tokens in the KV cache of each.", ge=0)] = 1024,
    prefill_tokens: Annotated[int, Field(description="Tokens of prompts in it.", ge=0)] = 0,
    engine: Annotated[str, Field(description="vllm, sglang, trtllm or assay.")] = "vllm",
    tensor: Annotated[int, Field(description="Tensor-parallel GPUs.", ge=1)] = 1,
    dtype: Annotated[str | None, Field(description="Format of weights.")] = None,
) -> CallToolResult:
    """Predict the time of one step of an LLM engine, operation by operation, and its floor."""
    return _run(
        "predict",
        model=model,
        gpu=gpu,
        batch=batch,
        context=context,
        prefill_tokens=prefill_tokens or None,
        engine=engine,
        tensor=tensor,
        dtype=dtype,
    )


def predict_load(
    model: Model,
    gpu: Gpu,
    rates: Annotated[str, Field(description="Requests per second: 1,2,4 or 2:20:2.")],
    prompt: Annotated[int, Field(description="Input tokens of a request.", ge=1)] = 1024,
    output: Annotated[int, Field(description="Output tokens of a request.", ge=1)] = 128,
    engine: Annotated[str, Field(description="vllm, sglang, trtllm or assay.")] = "vllm",
    tensor: Annotated[int, Field(description="Tensor-parallel GPUs.", ge=1)] = 1,
) -> CallToolResult:
    """Predict TTFT, TPOT and throughput of a server by its rate of requests, with intervals."""
    return _run(
        "predict-load",
        model=model,
        gpu=gpu,
        rates=rates,
        prompt=prompt,
        output=output,
        engine=engine,
        tensor=tensor,
    )


def plan(
    model: Model,
    rate: Annotated[
        float | None, Field(description="Requests per second; or give a recording.", gt=0)
    ] = None,
    recording: Annotated[
        str | None, Field(description="A file of recorded requests on this machine.")
    ] = None,
    users: Annotated[
        float | None, Field(description="Users in place of a rate; with every.", gt=0)
    ] = None,
    every: Annotated[str | None, Field(description="How often each user asks: 5m.")] = None,
    slo: Annotated[str | None, Field(description="Such as ttft=1s,tpot=50ms,p=99%.")] = None,
    input_tokens: Annotated[
        str | None, Field(description="128, 64-256 or lognormal:180,0.8; 1024 if not given.")
    ] = None,
    output_tokens: Annotated[str | None, Field(description="As input_tokens; 128.")] = None,
    gpus: Annotated[
        str | None, Field(description="Accelerators to choose from: h100,h200,b200.")
    ] = None,
    engine: Annotated[str | None, Field(description="vllm, sglang, trtllm or assay.")] = None,
    tensor: Annotated[str | None, Field(description="Tensor-parallel GPUs: 1,2,4.")] = None,
    risk: Annotated[str | None, Field(description="Risk of missing the SLO: 10%.")] = None,
    max_gpus: Annotated[int | None, Field(description="A budget of GPUs.", ge=1)] = None,
    max_cost: Annotated[
        float | None, Field(description="A budget of dollars an hour.", gt=0)
    ] = None,
) -> CallToolResult:
    """Plan which GPUs serve a rate within an SLO for the least money: how many, how laid out, the cost."""
    return _run(
        "plan",
        [] if recording is None else [recording],
        model=model,
        rate=rate,
        users=users,
        every=every,
        slo=slo,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        gpu=gpus,
        engine=engine,
        tensor=tensor,
        risk=risk,
        max_gpus=max_gpus,
        max_cost=max_cost,
    )


def estimate(
    model: Model,
    accelerator: Annotated[str, Field(description="An accelerator: h100_sxm.")],
    tokens: Annotated[str, Field(description="Tokens to train on or to serve: 15T.")],
    where: Annotated[str, Field(description="A country or a state of the US: us_virginia.")],
    serving: Annotated[bool, Field(description="Serve the tokens instead of training.")] = False,
    gpus: Annotated[int | None, Field(description="GPUs; searched for if not given.")] = None,
) -> CallToolResult:
    """Estimate time, money, energy and emissions of training on, or serving, so many tokens."""
    return _run("estimate", [model, accelerator, tokens, where], serving=serving, gpus=gpus)


def diagnose(
    trace: Annotated[str, Field(description="A file or folder of a trace on this machine.")],
    model: Annotated[str | None, Field(description="The model that ran.")] = None,
    gpu: Annotated[str | None, Field(description="The GPU that it ran on.")] = None,
) -> CallToolResult:
    """Say where the time of a recorded trace went, why, and what to try."""
    return _run("diagnose", [trace], model=model, gpu=gpu)


def runs(
    run: Annotated[
        str | None, Field(description="A run by its id, or latest; all runs if not given.")
    ] = None,
    store: Annotated[
        str | None,
        Field(
            description="A store of the team instead of this machine: a folder, s3://BUCKET/PREFIX, "
            "gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, or default for that of ASSAY_STORE. It lists "
            "runs, with run those whose name contains it."
        ),
    ] = None,
) -> CallToolResult:
    """List the runs of the loop that improves engines, or show what one tried and kept."""
    if store is not None:
        place = None if store == "default" else store
        terms = ["kind=run", *([] if run is None else [f"name={run}"])]
        return _run("store find", terms, store=place)
    return _run("runs list") if run is None else _run("runs show", [run])


def validate(
    suite: Annotated[str, Field(description="kernels, training, inference or all.")] = "all",
) -> CallToolResult:
    """Score Assay's predictions of published figures: how far to trust its numbers. Takes a minute."""
    return _run("validate", suite=suite, summary=True)


TOOLS: Final[Sequence[Callable[..., CallToolResult]]] = (
    ask, find, resolve, explain, sensitivity, predict, predict_load, plan, estimate, diagnose, runs,
    validate,
)  # fmt: skip
"""Every tool, the most general first."""


def _run(command: str, words: Sequence[str] = (), **options: Option) -> CallToolResult:
    """What a command prints, below its command line; a refusal is an error of the tool."""
    from assay.cli.app import run

    arguments = [*command.split(), *_options(options), *_positional(words)]
    out, notes = io.StringIO(), io.StringIO()
    with (
        _one_at_a_time, kept_reports() as reports, contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(notes),
    ):  # fmt: skip
        code = run(arguments)
    shown = out.getvalue().strip("\n")
    said = [text for text in (shown, notes.getvalue().strip("\n")) if text]
    line = f"assay {shlex.join(arguments)}"
    if code in REFUSED:
        # What is wrong stands at the end, below what is known.
        refused = _refused("\n".join(reversed(said)), command)
        raise ToolError(_cut(refused, MOST_REFUSED, line))
    answer, left_out = _data(reports)
    text = _cut("\n".join([f"$ {line}", *said]), MOST_CHARACTERS, line)
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content={
            "command": line,
            "exit_code": code,
            "answer": answer,
            **({"left_out": left_out} if left_out else {}),
        },
    )


def _cut(text: str, most: int, command: str) -> str:
    """A text at whole lines, and how much more the command prints."""
    if len(text) <= most:
        return text
    kept = text[:most].rpartition("\n")[0] or text[:most]
    left = len(text) - len(kept)
    return f"{kept}\n({left:,} more characters: {command})"


def _refused(text: str, command: str) -> str:
    """A refusal with options as the arguments of the tool that runs the command."""
    from assay.cli.mcp_words import left_options, refusal_words, tool_call

    tools = {tool.__name__: [*inspect.signature(tool).parameters] for tool in TOOLS}
    word = command.partition(" ")[0]
    name = {"list": "find", "catalog": "find", "store": "runs"}.get(word, word.replace("-", "_"))
    lines = []
    for line in text.splitlines():
        head, mark, nearest = line.partition("nearest assay ")
        if mark and not head:
            lines.append(f"nearest: {tool_call(f'assay {nearest}', tools)}")
        else:
            lines.append(refusal_words(line, tools[name]))
    if any(left_options(line) for line in lines if not line.startswith("nearest: ")):
        known = ", ".join(tools[name])
        lines.append(f"options that begin with -- are the command line's alone; arguments: {known}")
    return "\n".join(lines)


def _data(reports: Sequence[Report]) -> tuple[Any, dict[str, int]]:
    """What `--json` prints, cut to what an assistant can read, and how much its lists lack."""
    from assay.cli.mcp_data import fitted

    return fitted(json.loads(json_text(reports[-1])), MOST_CHARACTERS) if reports else (None, {})


def _positional(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        if word.startswith("-"):
            raise ToolError(f'error: expected a name or a question, got "{word}"')
        yield word


def _options(options: dict[str, Option]) -> Iterator[str]:
    """Options as words; a keyword of Python ends with an underscore."""
    for name, value in options.items():
        flag = f"--{name.rstrip('_').replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            yield flag
        elif isinstance(value, str | int | float):
            yield from (flag, str(value))
        else:
            for item in value:
                yield from (flag, item)
