"""`assay chat`: a conversation at the terminal, with its speed beside the roofline."""

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli import options, prompting, sampling
from assay.cli.declaring import argument, option
from assay.cli.generate import write_text
from assay.cli.output import show_error, show_progress
from assay.errors import AssayError, InputError

if TYPE_CHECKING:
    from assay.engine import Chunk, Engine, SamplingParams

RESET = "/reset"
EXIT = "/exit"


def chat_command(
    model: sampling.Model,
    message: Annotated[
        str | None, argument("[MESSAGE]", "Answer this message and exit; - reads it from stdin.")
    ] = None,
    text: prompting.Text = None,
    file: prompting.File = None,
    system: Annotated[str | None, option("--system TEXT", "The system message.")] = None,
    max_tokens: Annotated[
        int | None,
        option(
            "--max-tokens COUNT",
            "Tokens of a response at most; if not given, up to the context limit.",
        ),
    ] = None,
    greedy: sampling.Greedy = False,
    temperature: sampling.Temperature = None,
    top_k: sampling.TopK = None,
    top_p: sampling.TopP = None,
    min_p: sampling.MinP = None,
    repetition_penalty: sampling.RepetitionPenalty = None,
    presence_penalty: sampling.PresencePenalty = None,
    frequency_penalty: sampling.FrequencyPenalty = None,
    seed: sampling.Seed = None,
    json_schema: sampling.JsonSchema = None,
    chat_template: sampling.ChatTemplateFile = None,
    template_variables: Annotated[
        str | None,
        option(
            "--chat-template-kwargs JSON",
            """Variables of the chat template, such as '{"enable_thinking": false}'.""",
        ),
    ] = None,
    lora: sampling.Lora = None,
    device: sampling.Device = None,
    threads: sampling.Threads = None,
    kv_tokens: sampling.KvTokens = None,
    knob: sampling.Knobs = None,
    as_json: options.Json = False,
) -> int:
    """Chat with a model.

    Each line read from stdin is a user message; MESSAGE asks one question and exits. Responses are
    streamed to stdout; after each, its speed and its share of the floor go to stderr. The floor is
    the time this machine takes to read the weights once for every token. /reset clears the
    conversation, /exit or the end of the input quits. With --json each response is a JSON object
    on one line. Sampling that no option states is that of the checkpoint's generation_config.json.
    """
    given = sampling.checked(
        greedy=greedy,
        temperature=temperature,
        max_tokens=max_tokens,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        json_schema=json_schema,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
    )
    variables = _variables(template_variables)
    first = prompting.prompt_of(message, text, file)
    with sampling.load(
        model, device, kv_tokens, knob, threads=threads, lora=lora, chat_template=chat_template
    ) as engine:
        if engine.files.chat_template is None:
            raise InputError(
                f'the model "{engine.files.name}" has no chat template: it completes texts only',
                "assay generate completes a text; --chat-template FILE gives it a template",
            )
        sampling.show_notes(engine)
        conversation = Conversation(
            engine,
            sampling.params(engine.files, given),
            system,
            as_json=as_json,
            adapter=None if lora is None else sampling.ADAPTER,
            variables=variables,
        )
        if first is None:
            conversation.run()
        else:
            conversation.respond_to(first)
    return 0


def _variables(given: str | None) -> dict[str, Any]:
    """The variables of --chat-template-kwargs."""
    if given is None:
        return {}
    try:
        variables = json.loads(given)
    except (ValueError, RecursionError):
        variables = None
    if not isinstance(variables, dict):
        raise InputError(f"--chat-template-kwargs: expected a JSON object, got {given!r:.80}")
    for name in ("messages", "add_generation_prompt"):
        if name in variables:
            raise InputError(f'--chat-template-kwargs: expected other variables, got "{name}"')
    return variables


class Conversation:
    """The messages of the user and the model, until /reset."""

    def __init__(
        self,
        engine: "Engine",
        params: "SamplingParams",
        system: str | None,
        *,
        as_json: bool,
        adapter: str | None = None,
        variables: dict[str, Any] | None = None,
    ) -> None:
        from assay.bench.harness.ceilings import seconds_to_read

        self._engine = engine
        self._params = params
        self._as_json = as_json
        self._adapter = adapter
        self._variables = variables or {}
        self._start = [{"role": "system", "content": system}] if system else []
        self._messages = list(self._start)
        self._floor = seconds_to_read(engine.device, engine.describe()["streamed_bytes"])

    def run(self) -> None:
        """Respond to every line."""
        for line in _lines():
            if line == EXIT:
                return
            if line == RESET:
                self._messages = list(self._start)
                continue
            try:
                self.respond_to(line)
            except AssayError as error:
                # A message that is too long does not end the conversation.
                self._messages.pop()
                show_error(error)

    def respond_to(self, message: str) -> None:
        """Respond to one message."""
        self._messages.append({"role": "user", "content": message})
        self._messages.append({"role": "assistant", "content": self._respond()})

    def _respond(self) -> str:
        template = self._engine.files.chat_template
        assert template is not None
        rendered = template.render(self._messages, **self._variables)
        prompt = self._engine.files.tokenizer.encode(rendered, add_special=False)
        chunks: list[Chunk] = []
        token_times: list[float] = []
        # Ctrl-c ends the response; at the prompt it ends the program.
        with contextlib.suppress(KeyboardInterrupt):
            for chunk in self._engine.stream(prompt, self._params, self._adapter):
                token_times.append(time.perf_counter())
                chunks.append(chunk)
                if not self._as_json:
                    write_text(chunk.text)
        text = "".join(chunk.text for chunk in chunks)
        self._report(text, chunks[-1].finish_reason if chunks else None, token_times)
        return text

    def _report(self, text: str, finish_reason: str | None, token_times: list[float]) -> None:
        """Print the speed of a response, on stderr or as JSON."""
        each = (
            (token_times[-1] - token_times[0]) / (len(token_times) - 1)
            if len(token_times) > 1
            else None
        )
        rate = None if each is None else 1 / each
        share = None if each is None else self._floor / each
        if self._as_json:
            response = {
                "text": text,
                "tokens": len(token_times),
                "finish_reason": finish_reason,
                "tokens_per_second": rate,
                "floor_share": share,
            }
            write_text(json.dumps(response) + "\n")
            return
        write_text("\n")
        if rate is not None:
            show_progress(f"{len(token_times)} tokens, {rate:.1f} tok/s, {share:.0%} of the floor")


def _lines() -> Iterator[str]:
    """Lines of stdin that are not empty, with a prompt at a terminal."""
    is_terminal = sys.stdin.isatty()
    while True:
        if is_terminal:
            sys.stderr.write("> ")
            sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()
