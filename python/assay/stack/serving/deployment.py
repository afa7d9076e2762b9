"""Choices of a deployment: model, hardware, parallelism and load."""

from __future__ import annotations

from assay.model import POSITIVE, Reference, Scope, Variable, by_definition, cited, number, where
from assay.stack import interconnect, works

scope = Scope("serving", "Serving of a model")

_CHOICE = by_definition("a choice of the deployment")
_MEGATRON = cited(works.MEGATRON, "sec. 3")
_GPIPE = cited("Huang et al. 2019, GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism")
_SWITCH = cited(works.SWITCH_TRANSFORMERS, "sec. 5")
_DATA_PARALLEL_ATTENTION = cited(works.DEEPSEEK_V3, "sec. 3.4")
_OVERLAPPED = cited(works.DEEPSEEK_V3, "sec. 3.4.1 and 3.4.2")
_FORMATS = cited(works.FP8_FORMATS)
_CHUNKED = cited(works.SARATHI_SERVE, "sec. 4")
_ORCA = cited(works.ORCA, "sec. 3 and 4")
_SPLITWISE = cited(works.SPLITWISE)

ONE_TOKEN = number("1 token")
ONE_REQUEST = number("1 request")
ONE_GPU = number("1 GPU")


def _choice(heading: str, reference: Reference = _CHOICE, nature: str = "measure") -> Variable:
    return scope.declare(heading, bounds=POSITIVE, reference=reference, boundary="scenario", nature=nature)


def _flag(heading: str, reference: Reference) -> Variable:
    return scope.flag(heading, reference=reference, boundary="scenario")


tensor = _choice("tensor, t: tensor-parallel GPUs", _MEGATRON, "count")
pipeline = _choice("pipeline, p: pipeline stages", _GPIPE, "count")
expert = _choice("expert, e: expert-parallel groups", _SWITCH, "count")
attention_replicas = _choice(
    "attention_replicas, r: data-parallel attention replicas", _DATA_PARALLEL_ATTENTION, "count"
)
instance_gpus = scope.declare(
    "instance_gpus, n_i [GPU]: GPUs of one instance: one copy of the model",
    equals=tensor * pipeline * ONE_GPU,
    bounds=POSITIVE,
    reference=_MEGATRON,
    nature="count",
)
attention_ranks = scope.declare(
    "attention_ranks, t_a: GPUs that share the attention of one request",
    equals=tensor / attention_replicas,
    bounds=POSITIVE,
    reference=_DATA_PARALLEL_ATTENTION,
)

exchanges = scope.flag(
    "expert_exchange, f_x: 1: all-to-all dispatch and combine of tokens between expert ranks; 0: all-gather and "
    "reduce-scatter of all tokens. Unless given, 1 where expert ranks span nodes",
    equals=where(expert > interconnect.node_ranks, 1, 0),
    reference=_DATA_PARALLEL_ATTENTION,
)
micro_batches = scope.declare(
    "micro_batches, m: micro-batches of an iteration: of two, one computes while the tokens of the other travel "
    "between experts (dual-batch overlap). Unless given, 1",
    bounds=(1, None),
    equals=number("1"),
    reference=_OVERLAPPED,
)

compute_bits = _choice("compute_bits, b: bits of operands in the tensor cores, projections", _FORMATS)
expert_bits = _choice("expert_bits, b_e: bits of operands in the tensor cores, experts", _FORMATS)
weight_bytes = _choice("weight_bytes, B_w [byte]: bytes of a stored weight", _FORMATS)
embedding_bytes = scope.declare(
    "embedding_bytes, B_v [byte]: bytes of a stored weight of the embedding and the output projection, where other "
    "weights are narrower. Unless given, 2: engines keep them in 16 bits",
    bounds=POSITIVE,
    equals=number("2 byte"),
    reference=_FORMATS,
)
expert_bytes = _choice("expert_bytes, B_x [byte]: bytes of a stored weight of experts", _FORMATS)
kv_bytes = _choice("kv_bytes, B_k [byte]: bytes of a stored key or value element", _FORMATS)

prompt = _choice("prompt, s_p [token]: input tokens per request")
output = _choice("output, s_o [token]: output tokens per request")
_RENEWAL = cited("Cox 1962, Renewal Theory", "sec. 5.2, mean age: half the mean and its squared variation")
output_share = scope.declare(
    "output_share, kappa_o: mean output so far of the running requests, over the mean output. Unless given, 1/2: "
    "outputs of one length; of variation v and in steady state it is (1 + v^2) / 2",
    bounds=(0, None),
    equals=number("0.5"),
    reference=_RENEWAL,
)
prompt_variation = scope.declare(
    "prompt_variation, v_p: squared coefficient of variation of the prompts' lengths. Unless given, 0: prompts of one "
    "length; 1: exponential lengths",
    bounds=(0, 1),
    equals=number("0"),
    reference=_RENEWAL,
)
concurrency = _choice("concurrency, c [request]: concurrent requests, including waiting ones")
batch_limit = _choice("batch_limit, B_max [request]: most running requests (max_num_seqs)", _ORCA, "count")
prompt_budget = _choice(
    "prompt_budget, n_max [token]: most tokens per iteration and replica (max_num_batched_tokens)", _CHUNKED, "count"
)
static = _flag("static, f_s: 1: static batching, all prefill first; 0: continuous batching", _ORCA)
separate = _flag("separate, f_d: 1: disaggregated prefill; 0: prefill and decode on the same GPUs", _SPLITWISE)
