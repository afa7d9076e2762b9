"""Vets constraints of strangers: each is compiled in a process of its own before it is used here.

The compiler has limits, but not on everything: a schema of a megabyte can overflow its stack or keep
it busy for minutes, and would take the server down. In the other process it takes down only that.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import threading
from collections import OrderedDict
from typing import Final

from assay.engine.requests.structured_output import StructuredOutput
from assay.errors import InputError

SECONDS: Final = 3.0
"""Time to compile a constraint."""

_START_SECONDS: Final = 60.0
"""Time for the process to start, on a busy machine."""

_MODULE: Final = "assay.engine.requests.grammar_check"
_MAX_KNOWN: Final = 256


class GrammarVetting:
    """Checks constraints one after the other; threads may share it."""

    def __init__(self, seconds: float = SECONDS) -> None:
        """The process is started by the first check."""
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None
        self._known: OrderedDict[StructuredOutput, str | None] = OrderedDict()
        """The error of constraints that were checked, or None."""
        self._lock = threading.Lock()

    def check(self, constraint: StructuredOutput) -> None:
        """Raise if the constraint does not compile in time."""
        with self._lock:
            if constraint not in self._known:
                self._known[constraint] = self._ask(constraint)
                if len(self._known) > _MAX_KNOWN:
                    self._known.popitem(last=False)
            error = self._known[constraint]
        if error is not None:
            raise InputError(error)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _ask(self, constraint: StructuredOutput) -> str | None:
        process = self._process
        if process is None:
            process = self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # The compiler reports its crash there; the server's log has it in its own words.
                stderr=subprocess.DEVNULL,
                text=True,
            )
            # An easy constraint first: the time to start is not the constraint's.
            if self._answer(process, StructuredOutput.choices(["a"]), _START_SECONDS) is not None:
                self._end()
                raise InputError(
                    "structured output: expected a process that compiles grammars, got none",
                    "is the package llguidance installed? pip install 'assay[serve]'",
                )
        return self._answer(process, constraint, self._seconds)

    def _answer(
        self, process: subprocess.Popen[str], constraint: StructuredOutput, seconds: float
    ) -> str | None:
        assert process.stdin is not None
        assert process.stdout is not None
        words = (constraint.kind, constraint.text, constraint.whitespace)
        line = ""
        try:
            process.stdin.write(json.dumps(words) + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], seconds)
            line = process.stdout.readline() if ready else ""
        except BrokenPipeError:
            ready = []
        if line:
            error: str | None = json.loads(line)
            return error
        self._end()
        what = "ended its compiler" if ready else f"took longer than {seconds:g} s to compile"
        return f"structured output: expected one that can be compiled, got one that {what}"

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
