"""The program of `GrammarVetting`: compiles the constraints that it reads, one JSON line each.

It answers each line with one line, the error or null. A constraint may end the process, or run until
it is ended: that is what the process is for.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
from typing import Final

from assay.engine.loading.synthetic import synthetic_tokenizer
from assay.engine.requests.grammar import GrammarCompiler
from assay.engine.requests.structured_output import StructuredOutput
from assay.errors import AssayError

_STACK_BYTES: Final = 4 << 20
"""Half of what threads have by default: what fits here fits in the server's threads."""

_MEMORY_BYTES: Final = 2 << 30


def main() -> None:
    """Answer lines until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.stack_size(_STACK_BYTES)
    worker = threading.Thread(target=_answer_lines)
    worker.start()
    worker.join()


def _answer_lines() -> None:
    # Every byte is a token: whether a grammar compiles does not depend on the vocabulary.
    tokenizer = synthetic_tokenizer()
    compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size)
    for line in sys.stdin:
        kind, text, whitespace = json.loads(line)
        error = None
        try:
            compiler.matcher(StructuredOutput(kind, text, whitespace))
        except AssayError as refused:
            error = refused.message
        sys.stdout.write(json.dumps(error) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
