"""`assay generate`: complete a prompt, with nothing but the completion on stdout."""

import sys
from typing import Annotated

from assay.cli import options, prompting, sampling
from assay.cli.declaring import option
from assay.cli.output import Report, stdout_errors
from assay.escaping import one_line


def generate_command(
    model: sampling.Model,
    prompt: prompting.Argument = None,
    text: prompting.Text = None,
    file: prompting.File = None,
    max_tokens: sampling.MaxTokens = 128,
    greedy: sampling.Greedy = False,
    temperature: sampling.Temperature = None,
    top_k: sampling.TopK = None,
    top_p: sampling.TopP = None,
    min_p: sampling.MinP = None,
    repetition_penalty: sampling.RepetitionPenalty = None,
    presence_penalty: sampling.PresencePenalty = None,
    frequency_penalty: sampling.FrequencyPenalty = None,
    min_tokens: sampling.MinTokens = None,
    seed: sampling.Seed = None,
    stop: sampling.Stop = None,
    ignore_eos: Annotated[
        bool, option("--ignore-eos", "Continue after the model's end-of-sequence token.")
    ] = False,
    json_schema: sampling.JsonSchema = None,
    lora: sampling.Lora = None,
    device: sampling.Device = None,
    threads: sampling.Threads = None,
    kv_tokens: sampling.KvTokens = None,
    knob: sampling.Knobs = None,
    as_json: options.Json = False,
) -> Report | int:
    """Complete a prompt.

    No chat template is applied; a begin-of-sequence token is added where the model's files ask
    for one. Only the completion is printed, token by token. Without PROMPT the text is read from
    stdin; sampling that no option states is that of the checkpoint's generation_config.json.
    """
    given = sampling.checked(
        greedy=greedy,
        temperature=temperature,
        max_tokens=max_tokens,
        stop=stop or (),
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        min_tokens=min_tokens,
        json_schema=json_schema,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
        ignore_eos=ignore_eos,
    )
    written = prompting.prompt_of(prompt, text, file)
    prompt = prompting.piped_prompt() if written is None else written
    adapter = None if lora is None else sampling.ADAPTER
    with sampling.load(model, device, kv_tokens, knob, threads=threads, lora=lora) as engine:
        sampling.show_notes(engine)
        chosen = sampling.params(engine.files, given)
        if as_json:
            (answer,) = engine.generate([prompt], chosen, adapter)
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
        for chunk in engine.stream(prompt, chosen, adapter):
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
