"""ShareGPT: conversations of people with ChatGPT, a JSON array or JSON lines.

    [{"id": "a", "conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}]}]

As in `vllm bench serve`, a request is the first message, its output as long as the second one, and
short or long ones are left out: below 4 tokens, above 1,024 of prompt or 2,048 in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from assay.load.workloads.readers.json_array import rows_of
from assay.load.workloads.readers.recorded import Format, LeftOut, Recorded, Rows
from assay.load.workloads.texts import approximate_tokens

MIN_TOKENS: Final = 4
MAX_PROMPT_TOKENS: Final = 1024
MAX_TOTAL_TOKENS: Final = 2048


def read(path: Path) -> Rows:
    """The requests of a file."""
    for row in rows_of(path):
        yield _request(row)


def _request(row: Mapping[str, Any]) -> Recorded | LeftOut:
    turns = row.get("conversations")
    if not isinstance(turns, list) or len(turns) < 2:
        return LeftOut("conversations of less than two messages")
    texts = [turn.get("value") if isinstance(turn, dict) else None for turn in turns[:2]]
    prompt, answer = texts
    if not isinstance(prompt, str) or not isinstance(answer, str):
        return LeftOut("conversations whose messages are no text")
    lengths = approximate_tokens(prompt), approximate_tokens(answer)
    if min(lengths) < MIN_TOKENS:
        return LeftOut(f"conversations below {MIN_TOKENS} tokens")
    if lengths[0] > MAX_PROMPT_TOKENS or sum(lengths) > MAX_TOTAL_TOKENS:
        return LeftOut(
            f"conversations above {MAX_PROMPT_TOKENS:,} tokens of prompt or "
            f"{MAX_TOTAL_TOKENS:,} in all"
        )
    return Recorded(lengths[1], prompt=prompt)


FORMAT: Final = Format("sharegpt", "conversations with from and value", read)
