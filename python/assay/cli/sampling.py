"""Sampling and engine options of the commands that generate text, each declared once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli.completion import complete_models
from assay.cli.declaring import argument, option
from assay.cli.output import show_note
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.engine import Encoder, Engine, SamplingParams

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
    float | None, option("--temperature NUMBER", "Divides the logits; 0 is greedy, 1 if not given.")
]
TopK = Annotated[int, option("--top-k COUNT", "Sample from the COUNT likeliest tokens; 0 is all.")]
TopP = Annotated[float, option("--top-p SHARE", "Sample from the nucleus of this probability.")]
MinP = Annotated[float, option("--min-p SHARE", "Least probability, as a share of the highest.")]
RepetitionPenalty = Annotated[
    float,
    option(
        "--repetition-penalty FACTOR",
        "Divides the logits of tokens that occurred in the prompt or output.",
    ),
]
Seed = Annotated[
    int | None, option("--seed NUMBER", "Random seed; the same seed samples the same tokens.")
]
Stop = Annotated[
    list[str] | None,
    option("--stop TEXT", "Stop string: the output ends before it. May be repeated."),
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
        "--knob NAME=VALUE",
        "Set a knob of the engine, such as threads=2 or weight_format=fp8. May be repeated.",
    ),
]


def params(
    *,
    greedy: bool,
    temperature: float | None,
    max_tokens: int | None,
    stop: Sequence[str] | None,
    **rest: Any,
) -> "SamplingParams":
    """The sampling parameters from the options."""
    from assay.engine import SamplingParams

    if greedy and temperature:
        raise InputError(
            f"--greedy and --temperature {temperature:g} contradict each other", "give one of them"
        )
    chosen = 1.0 if temperature is None else temperature
    return SamplingParams(
        max_tokens=max_tokens, temperature=0.0 if greedy else chosen, stop=tuple(stop or ()), **rest
    )


def chosen_device(given: str | None) -> str:
    """The given device, else the first GPU, with a note, else `cpu`."""
    if given is not None:
        return given
    from assay.runtime import cuda

    if names := cuda.names():
        show_note(f"computing on {names[0]}; --device cpu computes on the CPU")
        return names[0]
    return "cpu"


def load(
    model: str, device: str | None, kv_tokens: int | None, given: Sequence[str] | None
) -> "Engine":
    """An engine with these knobs set."""
    from assay.engine import Engine
    from assay.engine.loading.user_knobs import read_knobs

    return Engine.load(model, chosen_device(device), kv_tokens=kv_tokens, **read_knobs(given or ()))


def show_notes(engine: "Engine | Encoder") -> None:
    """Print notes about synthetic weights and substituted formats."""
    from assay.engine.core.notes import model_notes

    for note in model_notes(engine):
        show_note(note)
