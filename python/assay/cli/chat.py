"""`assay chat`: a conversation at the terminal, with its speed beside the machine's limit."""

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli import options, sampling
from assay.cli.generate import write_text
from assay.cli.output import show_error, show_talk
from assay.errors import AssayError, InputError

if TYPE_CHECKING:
    from assay.engine import Chunk, Engine, SamplingParams

RESET = "/reset"
LEAVE = "/exit"


def chat_command(
    model: sampling.Model,
    system: Annotated[
        str | None,
        typer.Option("--system", metavar="TEXT", help="What the model is told before all else."),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            metavar="COUNT",
            help="Tokens of an answer at most; as many as fit if not given.",
        ),
    ] = None,
    greedy: sampling.Greedy = False,
    temperature: sampling.Temperature = None,
    top_k: sampling.TopK = 0,
    top_p: sampling.TopP = 1.0,
    min_p: sampling.MinP = 0.0,
    repetition_penalty: sampling.RepetitionPenalty = 1.0,
    seed: sampling.Seed = None,
    device: sampling.Device = None,
    kv_tokens: sampling.KvTokens = None,
    knob: sampling.Knobs = None,
    as_json: options.Json = False,
) -> int:
    """Talk with a model.

    Each line read from stdin is a turn. Answers go to stdout as they are made; after each, its
    speed and its share of the floor go to stderr: the floor is the time this machine takes to
    read the weights once for every token. /reset forgets the conversation, /exit or the end of
    the input leaves. With --json each answer is an object on a line of its own.
    """
    chosen = sampling.params(
        greedy=greedy,
        temperature=temperature,
        max_tokens=max_tokens,
        stop=None,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
    )
    with sampling.load(model, device, kv_tokens, knob) as engine:
        if engine.files.chat_template is None:
            raise InputError(
                f'the model "{engine.files.name}" has no chat template',
                "assay generate continues a text without one",
            )
        sampling.show_notes(engine)
        Conversation(engine, chosen, system, as_json=as_json).run()
    return 0


class Conversation:
    """Turns of the user and the model, kept until they are reset."""

    def __init__(
        self, engine: "Engine", params: "SamplingParams", system: str | None, *, as_json: bool
    ) -> None:
        from assay.bench.harness.ceilings import seconds_to_read

        self._engine = engine
        self._params = params
        self._as_json = as_json
        self._start = [{"role": "system", "content": system}] if system else []
        self._messages = list(self._start)
        self._floor = seconds_to_read(engine.device, engine.describe()["streamed_bytes"])

    def run(self) -> None:
        """Answer every line."""
        for line in _lines():
            if line == LEAVE:
                return
            if line == RESET:
                self._messages = list(self._start)
                continue
            self._messages.append({"role": "user", "content": line})
            try:
                self._messages.append({"role": "assistant", "content": self._answer()})
            except AssayError as error:
                # One turn too long ends no conversation.
                self._messages.pop()
                show_error(error)

    def _answer(self) -> str:
        template = self._engine.files.chat_template
        assert template is not None
        rendered = template.render(self._messages)
        prompt = self._engine.files.tokenizer.encode(rendered, add_special=False)
        said: list[Chunk] = []
        moments: list[float] = []
        # Ctrl-c ends the answer; at the prompt it ends the program.
        with contextlib.suppress(KeyboardInterrupt):
            for chunk in self._engine.stream(prompt, self._params):
                moments.append(time.perf_counter())
                said.append(chunk)
                if not self._as_json:
                    write_text(chunk.text)
        text = "".join(chunk.text for chunk in said)
        self._tell(text, said[-1].finish_reason if said else None, moments)
        return text

    def _tell(self, text: str, finish_reason: str | None, moments: list[float]) -> None:
        """How fast the answer was, below it or with it."""
        each = (moments[-1] - moments[0]) / (len(moments) - 1) if len(moments) > 1 else None
        rate = None if each is None else 1 / each
        share = None if each is None else self._floor / each
        if self._as_json:
            answer = {
                "text": text,
                "tokens": len(moments),
                "finish_reason": finish_reason,
                "tokens_per_second": rate,
                "floor_share": share,
            }
            write_text(json.dumps(answer) + "\n")
            return
        write_text("\n")
        if rate is not None:
            show_talk(f"{len(moments)} tokens, {rate:.1f} tok/s, {share:.0%} of the floor")


def _lines() -> Iterator[str]:
    """Lines of stdin that are not empty; at a terminal each is asked for."""
    asks = sys.stdin.isatty()
    while True:
        if asks:
            sys.stderr.write("> ")
            sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()
