"""`assay chat`: a conversation at the terminal, with its speed beside the roofline."""

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli import options, prompting, sampling
from assay.cli.declaring import argument, option
from assay.cli.generate import write_text
from assay.cli.output import show_error, show_progress
from assay.cli.verbosity import is_quiet
from assay.errors import AssayError, InputError

if TYPE_CHECKING:
    from assay.engine import Chunk, Engine, SamplingParams
    from assay.engine.requests.harmony import Part

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
        from assay.engine.requests.harmony import is_harmony

        self._engine = engine
        self._params = params
        self._as_json = as_json
        self._adapter = adapter
        self._variables = variables or {}
        self._start = [{"role": "system", "content": system}] if system else []
        self._messages = list(self._start)
        template = engine.files.chat_template
        self._harmony = template is not None and is_harmony(template.text)
        if self._harmony:
            # The markers of its channels are special tokens.
            self._params = replace(params, skip_special_tokens=False)
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
        self._messages.append({"role": "assistant", **self._respond()})

    def _respond(self) -> dict[str, str]:
        template = self._engine.files.chat_template
        assert template is not None
        rendered = template.render(self._messages, **self._variables)
        prompt = self._engine.files.tokenizer.encode(rendered, add_special=False)
        shown = _Harmony(rendered) if self._harmony else _Plain()
        chunks: list[Chunk] = []
        token_times: list[float] = []
        # Ctrl-c ends the response; at the prompt it ends the program.
        with contextlib.suppress(KeyboardInterrupt):
            for chunk in self._engine.stream(prompt, self._params, self._adapter):
                token_times.append(time.perf_counter())
                chunks.append(chunk)
                shown.push(chunk.text, silent=self._as_json)
        shown.finish(silent=self._as_json)
        self._report(shown.message, chunks[-1].finish_reason if chunks else None, token_times)
        return shown.message

    def _report(
        self, message: dict[str, str], finish_reason: str | None, token_times: list[float]
    ) -> None:
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
                "text": message["content"],
                **({"reasoning": message["thinking"]} if "thinking" in message else {}),
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


class _Plain:
    """An answer that is written as it is generated."""

    def __init__(self) -> None:
        self.message = {"content": ""}

    def push(self, text: str, *, silent: bool) -> None:
        """Write more of it, unless `silent`."""
        self.message["content"] += text
        if not silent:
            write_text(text)

    def finish(self, *, silent: bool) -> None:
        """Nothing is held back."""


class _Harmony:
    """An answer of gpt-oss: reasoning goes to stderr, the answer to stdout."""

    def __init__(self, prompt: str) -> None:
        from assay.engine.requests.harmony import HarmonyParser

        self._parser = HarmonyParser(prompt)
        self.message = {"content": "", "thinking": ""}

    def push(self, text: str, *, silent: bool) -> None:
        """Write more of it, unless `silent`."""
        self._write(self._parser.push(text), silent)

    def finish(self, *, silent: bool) -> None:
        """Write what was held back."""
        self._write(self._parser.finish(), silent)

    def _write(self, parts: "list[Part]", silent: bool) -> None:
        for kind, text in parts:
            name = "thinking" if kind == "thought" else "content"
            self.message[name] += text
            if not silent and name == "content":
                write_text(text)
            elif not silent and not is_quiet():
                sys.stderr.write(text)


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
