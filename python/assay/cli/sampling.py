"""Sampling and engine options of the commands that generate text, each declared once."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli.completion import complete_models
from assay.cli.declaring import argument, option
from assay.cli.output import show_note
from assay.errors import InputError, OutOfMemoryError

if TYPE_CHECKING:
    from assay.engine import Encoder, Engine, SamplingParams
    from assay.engine.loading import ModelFiles

Model = Annotated[
    str,
    argument(
        "MODEL", "A GGUF file, a Hugging Face folder, or a name.", autocompletion=complete_models
    ),
]
Device = Annotated[
    str | None,
    option(
        "--device DEVICE", "Device: cpu, cuda:0, or auto; if not given the first GPU, else cpu."
    ),
]
MaxTokens = Annotated[int, option("--max-tokens COUNT", "Tokens to generate at most.")]
Greedy = Annotated[bool, option("--greedy", "Always choose the most likely token.")]
Temperature = Annotated[
    float | None, option("--temperature NUMBER", "Divides the logits; 0 is greedy.")
]
TopK = Annotated[
    int | None, option("--top-k COUNT", "Sample from the COUNT likeliest tokens; 0 is all.")
]
TopP = Annotated[
    float | None, option("--top-p SHARE", "Sample from the nucleus of this probability.")
]
MinP = Annotated[
    float | None, option("--min-p SHARE", "Least probability, as a share of the highest.")
]
RepetitionPenalty = Annotated[
    float | None,
    option(
        "--repetition-penalty FACTOR",
        "Divides the logits of tokens that occurred in the prompt or output.",
    ),
]
PresencePenalty = Annotated[
    float | None,
    option("--presence-penalty NUMBER", "Subtracted for tokens of the output.", hidden=True),
]
FrequencyPenalty = Annotated[
    float | None,
    option("--frequency-penalty NUMBER", "Subtracted for each time in the output.", hidden=True),
]
MinTokens = Annotated[
    int | None, option("--min-tokens COUNT", "Tokens to generate at least.", hidden=True)
]
Seed = Annotated[
    int | None, option("--seed NUMBER", "Random seed; the same seed samples the same tokens.")
]
Stop = Annotated[
    list[str] | None,
    option("--stop TEXT", "Stop string: the output ends before it. May be repeated."),
]
JsonSchema = Annotated[
    str | None,
    option("--json-schema SCHEMA", "Output is JSON of this schema: its text, or a file."),
]
Lora = Annotated[str | None, option("--lora FOLDER", "Generate with this LoRA adapter (PEFT).")]
Threads = Annotated[
    int | None, option("--threads COUNT", "Threads of the CPU; one for each core if not given.")
]
ChatTemplateFile = Annotated[
    str | None,
    option("--chat-template FILE", "A Jinja2 template instead of that of the model's files."),
]
KvTokens = Annotated[
    int | None,
    option(
        "--kv-tokens COUNT",
        "Tokens of the KV cache; if not given it grows on demand, up to the model's context.",
    ),
]
Knobs = Annotated[
    list[str] | None,
    option(
        "--knob NAME=VALUE", "Set a knob of the engine, such as weight_format=fp8. May be repeated."
    ),
]
ADAPTER = "adapter"
"""The name of the adapter of --lora in the engine."""


def checked(*, greedy: bool, json_schema: str | None, **given: Any) -> dict[str, Any]:
    """The sampling parameters that the options give; unusable ones raise before a model is loaded."""
    from assay.engine import SamplingParams, StructuredOutput

    temperature = given["temperature"]
    if greedy and temperature:
        raise InputError(
            f"--greedy and --temperature {temperature:g} contradict each other", "give one of them"
        )
    given = {name: value for name, value in given.items() if value is not None}
    if greedy:
        given["temperature"] = 0.0
    if json_schema is not None:
        given["structured_output"] = StructuredOutput.json_schema(_schema(json_schema))
    SamplingParams(**given)
    return given


def params(files: "ModelFiles", given: dict[str, Any]) -> "SamplingParams":
    """The given parameters, then those of the checkpoint, with a note that says which."""
    from assay.engine import SamplingParams

    stated = {name: value for name, value in files.sampling.items() if name not in given}
    if given.get("temperature") == 0.0:
        # Greedy sampling: the limits of others have nothing to cut.
        stated = {name: stated[name] for name in stated if name == "repetition_penalty"}
    if stated:
        values = ", ".join(f"{name} {value:g}" for name, value in stated.items())
        show_note(f"sampling as the checkpoint states: {values}; options override it")
    return SamplingParams.with_defaults(stated, **given)


def _schema(given: str) -> str:
    """The text of a schema, from itself or from a file."""
    import json
    from pathlib import Path

    from assay.files import read_text

    if not given.lstrip().startswith(("{", "true", "false")):
        return read_text("JSON schema", Path(given))
    try:
        json.loads(given)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"--json-schema: expected JSON or the path of a file, got: {error}"
        ) from None
    return given


def chosen_device(given: str | None) -> str:
    """The given device, else the first GPU, with a note, else `cpu`."""
    if given is not None:
        return given
    from assay.engine.core.notes import default_device

    name, note = default_device()
    if note:
        show_note(note)
    return name


def knobs(given: Sequence[str] | None, threads: int | None = None) -> dict[str, Any]:
    """The knobs of the options."""
    from assay.engine.loading.user_knobs import read_knobs

    chosen = read_knobs(given or ())
    if threads is not None:
        if "threads" in chosen:
            raise InputError("--threads: expected it once, got --knob threads, too")
        chosen["threads"] = threads
    return chosen


def load(
    model: str,
    device: str | None,
    kv_tokens: int | None,
    given: Sequence[str] | None,
    *,
    threads: int | None = None,
    lora: str | None = None,
    chat_template: str | None = None,
) -> "Engine":
    """An engine with these knobs, this adapter and this chat template."""
    from assay.engine import Engine
    from assay.engine.loading import open_model

    chosen = knobs(given, threads)
    files = open_model(model)
    if chat_template is not None:
        files = with_template(files, chat_template)
    with memory_hint():
        return Engine.load(
            files,
            chosen_device(device),
            kv_tokens=kv_tokens,
            adapters=None if lora is None else {ADAPTER: lora},
            **chosen,
        )


@contextmanager
def memory_hint() -> Iterator[None]:
    """Say which options take less memory, where a model does not fit."""
    try:
        yield
    except OutOfMemoryError as error:
        # Where weights do not fit, the hint says how many layers to offload.
        if "pool" in (error.hint or ""):
            error.hint = "a smaller --kv-tokens takes less, and so does --knob weight_format=q4_0"
        raise


def with_template(files: "ModelFiles", path: str) -> "ModelFiles":
    """The model with the chat template of a file, which must render a message."""
    from assay.engine.loading.template_file import replaced_template

    return replaced_template(files, path)


def show_notes(engine: "Engine | Encoder") -> None:
    """Print notes about synthetic weights and substituted formats."""
    from assay.engine.core.notes import model_notes

    for note in model_notes(engine):
        show_note(note)
