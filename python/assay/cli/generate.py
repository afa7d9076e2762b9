"""`assay generate`: complete a prompt, with nothing but the completion on stdout."""

import sys
from typing import Annotated

from assay.cli import options, sampling
from assay.cli.declaring import option
from assay.cli.output import Report, stdout_errors
from assay.escaping import one_line


def generate_command(
    model: sampling.Model,
    prompt: Annotated[
        str, option("--prompt TEXT", "The text to complete; no chat template is applied.")
    ],
    max_tokens: sampling.MaxTokens = 128,
    greedy: sampling.Greedy = False,
    temperature: sampling.Temperature = None,
    top_k: sampling.TopK = 0,
    top_p: sampling.TopP = 1.0,
    min_p: sampling.MinP = 0.0,
    repetition_penalty: sampling.RepetitionPenalty = 1.0,
    seed: sampling.Seed = None,
    stop: sampling.Stop = None,
    ignore_eos: Annotated[
        bool, option("--ignore-eos", "Continue after the model's end-of-sequence token.")
    ] = False,
    device: sampling.Device = None,
    kv_tokens: sampling.KvTokens = None,
    knob: sampling.Knobs = None,
    as_json: options.Json = False,
) -> Report | int:
    """Complete a prompt.

    No chat template is applied; a begin-of-sequence token is added where the model's files ask
    for one. Only the completion is printed, token by token.
    """
    chosen = sampling.params(
        greedy=greedy,
        temperature=temperature,
        max_tokens=max_tokens,
        stop=stop,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
        ignore_eos=ignore_eos,
    )
    with sampling.load(model, device, kv_tokens, knob) as engine:
        sampling.show_notes(engine)
        if as_json:
            (answer,) = engine.generate([prompt], chosen)
            if answer.error is not None:
                raise answer.error
            timing = answer.timing
            data = {
                "model": engine.files.name,
                "synthetic": engine.files.synthetic,
                "prompt": prompt,
                "text": answer.text,
                "token_ids": list(answer.token_ids),
                "finish_reason": answer.finish_reason,
                "prompt_tokens": answer.prompt_tokens,
                "seconds": {"first_token": timing.first_token, "total": timing.total},
                "notes": list(engine.model.notes),
                "degradations": engine.describe()["degradations"],
            }
            return Report(data, lambda canvas: (), as_json)
        for chunk in engine.stream(prompt, chosen):
            write_text(chunk.text)
    write_text("\n")
    return 0


def write_text(text: str) -> None:
    """Write model output; on a terminal its control characters are escaped."""
    if sys.stdout.isatty():
        text = "\n".join(one_line(line) for line in text.split("\n"))
    with stdout_errors():
        sys.stdout.write(text)
        sys.stdout.flush()
