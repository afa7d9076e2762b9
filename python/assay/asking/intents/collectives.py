"""Questions about a collective by itself."""

from __future__ import annotations

from typing import Final

from assay.asking import collectives
from assay.asking.collective_patterns import OPERATION
from assay.asking.intents.intent import Intent, intent

_NEAREST: Final = (
    "assay resolve collectives.all_reduce.time --with accelerators/h100_sxm --set 'collectives.size=1 GB' "
    "--set collectives.ranks=8"
)
_SLOTS: Final = "accelerator gpus nodes node message per_replica"
_WORDS: Final = (
    "all reduce gather scatter collective collectives operation operations nccl test tests message messages buffer "
    "size ranks rank node nodes inside within same nvlink nvlinks nvswitch infiniband ib roce efa rdma network fabric"
)
_BANDWIDTH: Final = r"\b(?:bandwidth|bus[ -]?bw|alg[ -]?bw|throughput|gb/s|gbps)\b"
_ALONE: Final = rf"^(?=.*{OPERATION})"

INTENTS: Final[tuple[Intent, ...]] = (
    intent(
        name="collective-bandwidth",
        cue=(rf"{_ALONE}(?=.*{_BANDWIDTH})",),
        answer=collectives.bandwidth,
        slots=_SLOTS,
        nearest=_NEAREST.replace(".time", ".bus_bandwidth"),
        lacks="model",
        words=f"{_WORDS} bandwidth busbw algbw bus alg algorithm bw throughput gb s fast achieved",
        more_is_better=True,
    ),
    intent(
        name="collective-time",
        cue=(_ALONE,),
        answer=collectives.figure("time"),
        slots=_SLOTS,
        nearest=_NEAREST,
        lacks="model",
        words=f"{_WORDS} long latency time duration fast quick quickly slow speed last lasts",
    ),
    intent(
        name="broadcast",
        cue=(r"\bbroadcasts?\b(?!.*\bmodels?\b)",),
        answer=None,
        slots="",
        nearest="no broadcasts were measured; the operations that were, all-reduce for one: "
        + _NEAREST,
        needs="accelerator",
        lacks="model",
    ),
)
