"""Writes the scores of sources left out and the leaderboard into README.md, and the spreads behind their intervals.

The leaderboard is in docs/reference/peers.md, too.

The spreads go into docs/design/model-error.md, from the calibration files; what loaded servers and their power miss by
into docs/design/truth-serving.md and gpu-power.md, and our own windows of servers beside their predictions into the
first. The ranks and shares that a test holds
Assay to go into tests/data/leaderboard.json.

python scripts/generate_score_table.py          # write it
python scripts/generate_score_table.py --check  # exit with 1 if it is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay import json_records
from assay.catalog import constants, engines
from assay.validate.cases import Case, published_cases, read_cases
from assay.validate.groups import GroupScore, score_groups
from assay.validate.leaderboard import OWN, TOOLS, Board, Entry, leaderboard
from assay.validate.run import rows_of, validate
from assay.validate.score import Row
from assay.validate.served_windows import compare_windows
from generated_pages import filled, write_or_check
from loaded_tables import power_table, signed_table
from windows_tables import open_loop_table, windows_table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "README.md"
PEERS_PAGE = ROOT / "docs" / "reference" / "peers.md"
SPREADS_PAGE = ROOT / "docs" / "design" / "model-error.md"
LOADED_PAGE = ROOT / "docs" / "design" / "truth-serving.md"
POWER_PAGE = ROOT / "docs" / "design" / "gpu-power.md"
COMMAND = "python scripts/generate_score_table.py"
START = f"<!-- generated: {COMMAND} -->"
BOARD_START = f"<!-- leaderboard: {COMMAND} -->"
SIGNED_START = f"<!-- signed: {COMMAND} -->"
MISSES_START = f"<!-- misses: {COMMAND} -->"
WINDOWS_START = f"<!-- windows: {COMMAND} -->"
OPEN_LOOP_START = f"<!-- open-loop: {COMMAND} -->"
WINDOWS = {
    "dense": ROOT / "bench" / "results" / "serving-h200.json",
    "experts": ROOT / "bench" / "results" / "serving-moe-h200.json",
}
"""Files of `assay bench serving`, by what their model is called."""
OPEN_LOOP = ROOT / "tests" / "data" / "vllm_h200_openloop_llama8b.json"
RECORD = ROOT / "tests" / "data" / "leaderboard.json"
HEADER = (
    "| figures | count | sources | in-sample median | source left out | bar | in 90 % interval |",
    "|---|---|---|---|---|---|---|",
)


def row(group: GroupScore) -> str:
    """One group as a row of the table; what misses its bar is bold."""
    in_sample = "-" if group.in_sample is None else f"{group.in_sample.median:.1%}"
    left_out = "-" if group.held_out is None else f"{group.held_out.median:.1%}"
    inside = "-"
    if group.coverage90 is not None and group.band is not None:
        inside = f"{group.coverage90:.0%} ({group.band[0]:.0%} to {group.band[1]:.0%})"
    if "median" in group.failures:
        left_out = f"**{left_out}**"
    if {"narrow", "wide"} & set(group.failures):
        inside = f"**{inside}**"
    cells = (
        group.name, str(len(group.rows)), str(len(group.by_source)), in_sample, left_out,
        f"{group.bar:.0%}", inside,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def table(groups: Sequence[GroupScore]) -> str:
    """The table as Markdown."""
    return "\n".join([*HEADER, *(row(group) for group in groups)])


UNSEEN = "l40s"
"""An accelerator that no fit of steps has seen, so that errors of transfer are among its values."""

TERMS = {
    "training.model_error.fit": "every training step",
    "training.model_error.sharded": "what exchanges of FSDP, ZeRO-2 and 3 add to a step",
    "training.model_error.attention": "the time of attention in training",
    "training.model_error.mixed": "shards that tensor or context parallelism splits again",
    "training.model_error.experts": "training of models with experts",
    "training.model_error.scale": "each e-fold of GPUs beyond {gpus:,.0f}, the largest job of the fit",
    "training.model_error.unstated": "training with inputs left open: to the power of log(1 + their number)",
    "training.model_error.transfer": "training on accelerators that no fit has seen",
    "serving.model_error.experts": "serving of models with experts",
    "serving.model_error.narrow": "serving of weights of less than 8 bits",
    "serving.model_error.unstated": "serving with inputs left open: to the power of log(1 + their number)",
    "serving.model_error.transfer": "serving on accelerators that no fit has seen",
    "serving.model_error.interval": "median ITL, beside a step's",
    "serving.model_error.tail": "99th percentile of ITL, beside a step's",
    "serving.model_error.power": "power of the boards under load",
    "serving.model_error.energy": "energy of the boards per token, in place of the errors of power and rate",
    "serving.model_error.memory": "memory of weights and activations",
}
"""What each term that does not depend on the client belongs to."""

LOADS = {
    "serving.model_error.step": "a step or a rate of output",
    "serving.model_error.prompt": "prefill",
    "serving.model_error.first_token": "TTFT of a server: how requests arrive and wait",
}
"""The same of terms that have a spread for each client."""


def spreads() -> str:
    """The spreads of the model error as Markdown."""
    constant = constants.find(UNSEEN)
    gpus = constant.values["training.model_error.fitted_gpus"]
    lines = ["| term | log spread | of |", "|---|---|---|"]
    for name, what in TERMS.items():
        spread = constant.log_standard_errors.get(name, 0.0)
        lines.append(f"| `{name}` | {spread:.3g} | {what.format(gpus=gpus)} |")
    by_client = {client: engines.find("vllm", client) for client in engines.clients()}
    for name, what in LOADS.items():
        loads = {
            client: own.log_standard_errors.get(name, 0.0) for client, own in by_client.items()
        }
        servers = max(spread for client, spread in loads.items() if client != "offline")
        lines.append(
            f"| `{name}` | {loads['offline']:.3g} offline, {servers:.3g} servers | {what} |"
        )
    return "\n".join(lines)


def board_table(boards: Sequence[Board]) -> str:
    """The leaderboard as Markdown: the median error of each tool, and how many figures it answers."""
    names = (OWN, *TOOLS)
    lines = [f"| figures | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for board in boards:
        entries = {entry.tool: entry for entry in board.entries}
        cells = [_cell(entries.get(name), board.figures) for name in names]
        lines.append(f"| {board.group} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(entry: Entry | None, figures: int) -> str:
    if entry is None:
        return "-"
    if entry.median is None:
        return f"{entry.answered}/{figures}"
    return f"{entry.median:.1%} of {entry.answered}/{figures}"


def record(boards: Sequence[Board]) -> str:
    """Rank and share of answered figures by group, as the test reads them."""
    recorded = {
        board.group: {
            "rank": board.rank,
            "answered": board.entries[0].answered,
            "of": board.figures,
        }
        for board in boards
    }
    return json_records.dumps(recorded, 1) + "\n"


def with_tables(page: str, groups: Sequence[GroupScore], boards: Sequence[Board]) -> str:
    """A page with the table of scores and the leaderboard."""
    return with_board(filled(page, table(groups), START), boards)


def with_board(page: str, boards: Sequence[Board]) -> str:
    """The page of peers with the leaderboard."""
    return filled(page, board_table(boards), BOARD_START)


def with_misses(rows: Sequence[Row], cases: Mapping[str, Case]) -> dict[Path, str]:
    """The pages about loaded servers and their power, with what figures miss by."""
    tables = {
        LOADED_PAGE: (signed_table(rows, cases), SIGNED_START),
        POWER_PAGE: (power_table(rows, cases), MISSES_START),
    }
    return {
        path: filled(path.read_text(encoding="utf-8"), *table) for path, table in tables.items()
    }


def with_windows(page: str) -> str:
    """The page about serving with our own windows of servers beside their predictions."""
    answers = [(name, compare_windows(file)) for name, file in WINDOWS.items()]
    page = filled(page, windows_table(answers), WINDOWS_START)
    return filled(page, open_loop_table(OPEN_LOOP), OPEN_LOOP_START)


def main(arguments: Sequence[str]) -> int:
    """Write or check the table."""
    rows = rows_of(validate())
    boards = leaderboard(rows)
    cases = {case.id: case for case in read_cases(published_cases())}
    pages = {
        **with_misses(rows, cases),
        PAGE: with_tables(PAGE.read_text(encoding="utf-8"), score_groups(rows), boards),
        RECORD: record(boards),
        PEERS_PAGE: with_board(PEERS_PAGE.read_text(encoding="utf-8"), boards),
        SPREADS_PAGE: filled(SPREADS_PAGE.read_text(encoding="utf-8"), spreads(), START),
    }
    pages[LOADED_PAGE] = with_windows(pages[LOADED_PAGE])
    return write_or_check(pages, COMMAND, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
