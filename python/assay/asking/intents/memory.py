"""Questions about the memory of serving: what fits, and how many GPUs hold it."""

from __future__ import annotations

from typing import Final

from assay.asking import facts, memory, replicas, storage
from assay.asking.intents.intent import COUNTING, LOAD, MACHINE, RESOLVE, SERVED, Intent, intent

INTENTS: Final[tuple[Intent, ...]] = (
    intent(
        name="cached-tokens",
        cue=(r"how many tokens", r"\btokens\b"),
        answer=memory.cached_tokens,
        slots="model kv_format cache_size",
        nearest=RESOLVE.format("serving.kv.bytes_per_token"),
        needs="model cache_size",
        lacks="accelerator gpus nodes context prompt output concurrency",
        words="tokens fit fits hold holds",
    ),
    intent(
        name="loading",
        cue=(
            r"\b(?:re)?load(?:s|ing)?\b",
            r"\bread(?:s|ing)?\b",
            r"download",
            r"\bcop(?:y|ies|ying)\b",
            r"transfer",
            r"cold start",
            r"start(?:s|ing|up)?\b",
        ),
        answer=storage.loading,
        slots="model format native bandwidth",
        nearest=RESOLVE.format("serving.weight_memory"),
        needs="model bandwidth",
        words=(
            "load loading read reading download downloading copy transfer start cold ssd nvme disk "
            "drive network link nfs s3 storage weights checkpoint long speed pcie connection internet"
        ),
    ),
    intent(
        name="longest-context",
        workload="serving",
        cue=(
            r"how many tokens\b.*\b(?:fit|hold|holds|kv|cache)\b",
            r"context limit",
            r"(?:max(?:imum|imal)?|longest|largest|what|how (?:long|much|large) (?:a )?) ?context",
        ),
        answer=memory.longest_context,
        slots=f"{MACHINE} concurrency memory",
        nearest=RESOLVE.format("serving.kv.capacity"),
        needs="model",
        words=(
            "max maximum maximal longest largest context window long large tokens fit fits hold holds kv "
            "cache limit"
        ),
    ),
    intent(
        name="kv",
        cue=(r"\bkv\b", r"key[ -]value", r"kv[ -]?cache"),
        answer=memory.kv_cache,
        slots=SERVED,
        nearest=RESOLVE.format("serving.kv.request_memory"),
        words="cache big large gb gib bytes mb kb vram needed context memory request user each footprint",
    ),
    intent(
        name="memory",
        workload="serving",
        cue=(
            r"how much (?:vram|memory|gpu memory|ram)",
            r"(?:vram|memory) (?:for|of|does|do|is|needed)",
        ),
        answer=memory.whole,
        slots="model format native context prompt output concurrency kv_format",
        nearest=RESOLVE.format("serving.kv.request_memory"),
        needs="model",
        lacks="accelerator gpus nodes tensor memory",
        words="vram memory ram gb gib need needed total whole require requirements footprint",
    ),
    intent(
        name="weights",
        cue=(
            r"\bweights?\b",
            r"how many gi?b\b",
            r"memory (?:requirements?|footprint)",
            r"checkpoint size",
            r"model size",
            r"how (?:big|large) is",
            r"\b(?:file|download|gguf) size",
            r"\bsize (?:of|in)\b",
            r"\bsize$",
            r"(?:memory|vram) (?:for|of|does|do|is|needed)",
            r"how much (?:vram|memory)",
        ),
        answer=memory.weights,
        slots="model format native gpus nodes tensor accelerator per_gpu",
        nearest=RESOLVE.format("serving.weight_memory"),
        needs="model",
        lacks="concurrency context prompt",
        words=(
            "vram gb gib big large bytes alone load disk ram memory requirement requirements "
            "footprint quantize quantized quantization file download gguf"
        ),
    ),
    intent(
        name="parameters",
        cue=(r"parameters?\b", r"params\b"),
        answer=facts.parameters,
        slots="model",
        nearest=RESOLVE.format("architecture.parameters"),
        needs="model",
        words="active activate activates activated total weights billion",
    ),
    intent(
        name="users",
        cue=(
            r"how many .*\b(?:users?|requests?(?! ?(?:(?:per|a|/) ?[a-z]|\ue007))|conversations?|sessions?"
            r"|sequences?|chats?|customers?|streams?|people|developers?|students?|employees?|agents?)\b",
            r"\b(?:max(?:imum)?|number of|most)\b.*\b(?:users?|sessions?|conversations?|people)\b",
            r"concurrent",
            r"concurrency",
            r"\bat once\b",
            r"at the same time",
            r"simultaneous",
            r"max(?:imum)? batch",
            r"(?:what|which|how (?:big|large|many)) (?:a )?batch(?: size)?\b(?!.*saturat)",
            r"largest batch",
        ),
        answer=memory.users,
        slots=f"{SERVED} ttft_limit tpot_limit memory",
        nearest=RESOLVE.format("serving.kv.max_concurrency"),
        lacks="rate",
        words=(
            "users user requests request conversations sessions sequences chats customers "
            "streams people once concurrent concurrently hold holds simultaneous simultaneously fit "
            "fits support supports handle handles batch maximum max largest chat chatting talk parallel "
            "same time before person agents developers students employees access share"
        ),
    ),
    intent(
        name="serves-rate",
        workload="serving",
        cue=(r"^(?:can|could|will|would|is|are|does|do)\b", r"\benough\b"),
        answer=replicas.serves_rate,
        slots=f"{SERVED} rate ttft_limit tpot_limit percentile prefix_hits",
        nearest=LOAD,
        needs="rate accelerator",
        words="handle handles support supports sustain keep meet able within traffic slo",
    ),
    intent(
        name="replicas",
        cue=(*COUNTING, r"gpus\b", r"nodes\b"),
        answer=replicas.replicas,
        slots=f"{SERVED} rate ttft_limit tpot_limit percentile prefix_hits per_replica",
        nearest=LOAD,
        needs="rate",
        words=(
            "nodes replicas replica instances servers slo handle support traffic meet limit "
            "within requests keep sending send sends making each user"
        ),
    ),
    intent(
        name="speed-gpus",
        cue=(*COUNTING,),
        answer=replicas.speed_gpus,
        slots=f"{SERVED} speed",
        nearest=RESOLVE.format("serving.throughput"),
        needs="speed",
        words="nodes replicas handle reach",
    ),
    intent(
        name="token-rate-gpus",
        workload="serving",
        cue=(*COUNTING,),
        answer=replicas.token_rate_gpus,
        slots=f"{SERVED} token_rate",
        nearest=RESOLVE.format("serving.throughput"),
        needs="token_rate",
        words="nodes replicas handle reach generate generating serve",
    ),
    intent(
        name="size-fit",
        workload="serving",
        cue=(r"\bfits?\b", r"\bholds?\b", r"^can\b.*\b(?:run|load)\b"),
        answer=memory.size_fit,
        slots="memory accelerator gpus nodes",
        nearest=RESOLVE.format("gpu.memory.capacity"),
        needs="memory accelerator",
        lacks="model tokens rate",
        words="model weights checkpoint file fit fits hold load run",
    ),
    intent(
        name="which-fits",
        workload="serving",
        cue=(
            r"(?:which|what) (?:single )?(?:gpu|card|accelerator)s?\b.*"
            r"\b(?:runs?|fits?|holds?|loads?|hosts?|enough|need|needed|required)\b",
            r"\b(?:smallest|minimum|minimal|least) (?:single )?(?:gpu|card|accelerator)\b",
        ),
        answer=memory.smallest,
        slots="model format native context concurrency rent_limit finance",
        nearest=RESOLVE.format("serving.kv.max_concurrency"),
        needs="model",
        lacks="accelerator rate gpus nodes tokens",
        words="run runs fit fits hold holds load loads single big smallest cost costs hour",
    ),
    intent(
        name="fewest",
        workload="serving",
        cue=(
            r"\b(?:min|minimum|minimal|fewest|smallest|least)\b",
            r"tensor[ -]parallel(?:ism)? (?:size|degree)",
            r"what tp\b",
            r"how many (?:gpus|cards|\ue001+|\ue007+ (?:vram )?(?:gpus|cards))",
        ),
        answer=memory.fewest_gpus,
        slots=f"{SERVED} memory",
        nearest=RESOLVE.format("serving.kv.max_concurrency"),
        needs="model",
        lacks="rate gpus tokens",
        words="hold holds fit fits load loads host nodes required memory tensor parallel parallelism size degree tp",
    ),
    intent(
        name="fit",
        workload="serving",
        cue=(
            r"\bfits?\b",
            r"^can\b.*\b(?:run|hold|serve|load|host)\b",
            r"can (?:i|we|you|it|one) (?:run|load|serve|host|use|deploy)",
            r"enough\b",
            r"big enough",
            r"possible to (?:run|load|serve)",
            r"\boom\b",
            r"out of memory",
            r"^(?!.*\bhow\b).*\bdo(?:es)? .* (?:run|work) on",
            r"\bis .* able to (?:run|hold)",
            r"\bhold\b",
            r"will .* run on",
            r"\bpossible\b",
        ),
        answer=memory.fit,
        slots=f"{SERVED} memory",
        nearest=(
            "assay resolve serving.kv.max_concurrency --constraints --preset "
            "llama3_8b_h200_serving{entries}"
        ),
        needs="model",
        lacks="rate tokens tpot_limit ttft_limit rent_limit cost_limit speed",
        words="big fits load work works able hold holds vram gb run memory",
    ),
)
