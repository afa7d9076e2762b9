"""Random traces of LLM engines whose steps, layers and operations are known.

Written from how engines launch kernels, not from the mapper: it shares no table, name list or
constant with `assay.observe.structure`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

REALISTIC = {
    "gemm": ["nvjet_sm90_tst_{t}_64x8_2x1_v_bz_TNT", "cutlass_80_wmma_tensorop_bf16_{t}_gemm",
             "void gemvx::kernel<bf16, {t}>", "Cijk_Ailk_Bljk_BBS_BH_MT{t}_MI32x32"],
    "experts": ["fused_moe_kernel_{t}", "void vllm::moe_gemm_{t}<bf16>", "grouped_gemm_{t}"],
    "splitk": ["void cublasLt::splitKreduce_kernel<32, 16, {t}>"],
    "norm": ["void vllm::rms_norm_kernel<{t}>", "triton_red_fused_add_rms_norm_{n}",
             "triton_per_fused_{n}"],
    "rope": ["void vllm::rotary_embedding_kernel<bf16>", "triton_poi_fused_{n}", "rope_kernel"],
    "cache": ["void vllm::reshape_and_cache_flash_kernel<bf16>", "set_kv_buffer_kernel",
              "concat_and_cache_mla_kernel"],
    "attention": ["void flash::flash_fwd_splitkv_kernel<{t}>", "fmha_v2_{t}",
                  "BatchDecodeWithPagedKVCacheKernel<{t}>", "kernel_unified_attention_2d_{t}"],
    "combine": ["void flash::flash_fwd_splitkv_combine_kernel<{t}>", "merge_states_kernel"],
    "fill": ["void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>"],
    "activation": ["void vllm::act_and_mul_kernel<bf16>", "triton_poi_fused_mul_silu_{n}",
                   "triton_poi_fused_{n}"],
    "topk": ["void vllm::moe::topkGating<8, 128>", "void moe_topk_softmax<{t}>"],
    "sort": ["void moe_align_block_size_kernel<int>", "count_and_sort_expert_tokens_kernel"],
    "sum": ["void vllm::moe_sum_kernel<bf16, 8>", "triton_red_fused_sum_{n}"],
    "all_reduce": ["ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
                   "void vllm::cross_device_reduce_1stage<bf16, 4>"],
    "conv": ["_causal_conv1d_update_kernel"],
    "scan": ["fused_recurrent_gated_delta_rule_fwd_kernel", "selective_state_update_{n}"],
    "embedding": ["void at::native::indexSelectSmallIndex<bf16>", "triton_poi_fused_embedding_0"],
    "gather": ["void at::native::vectorized_gather_kernel<16, long>",
               "void at::native::index_elementwise_kernel<128, 4>"],
    "sample": ["void at::native::cunn_SoftMaxForward<4>", "_topk_topp_kernel", "argmax_kernel",
               "void at::native::reduce_kernel<512, 1, ArgMaxOps<float>>"],
    "prepare": ["_prepare_inputs_kernel", "_compute_slot_mapping_kernel",
                "void at::native::elementwise_kernel_with_index<int, arange>"],
    "post": ["void at::native::unrolled_elementwise_kernel<direct_copy>"],
    "other": ["void at::native::unrolled_elementwise_kernel<direct_copy>"],
}  # fmt: skip


@dataclass
class Kernel:
    """One event of a device and what it is."""

    name: str
    kind: str
    dur: int
    grid: tuple[int, int, int] | None
    op: str
    layer: int = -1
    side: bool = False
    bytes: int | None = None
    collective: bool = False


@dataclass
class Synthetic:
    """A trace and its truth, one entry a row of the event table."""

    trace: Trace
    config: dict[str, Any]
    truth: list[tuple[int, int, int, str]]
    """Row, step (-1 outside complete ones), layer, operation."""
    phases: list[str]
    batches: list[int]
    ranks: int
    waits: dict[int, int] = field(default_factory=dict)
    """Nanoseconds each rank waits in collectives."""
    scheme: str = ""


class Generator:
    """Draws a model, an engine and a schedule, and writes what it runs."""

    def __init__(self, seed: int, *, family: str = "", scheme: str = "", ranks: int = 0) -> None:
        self.random = random.Random(seed)
        pick = self.random.choice
        self.family = family or pick(["dense", "dense", "moe", "moe_shared", "mla"])
        self.scheme = scheme or pick(["real", "real", "real", "opaque", "shuffled"])
        self.ranks = ranks or pick([1, 1, 1, 2, 4])
        self.config = self._config()
        self.style = {
            name: self.random.random() < chance
            for name, chance in {
                "split_k_o": 0.4, "split_k_down": 0.4, "memset_up": 0.2, "fused_embedding": 0.3,
                "rope_twice": 0.3, "rope_with_cache": 0.2, "combine": 0.5, "fill_attention": 0.3,
                "activation_fused": 0.15, "graph": 0.6, "overlap": 0.5, "separate_qkv": 0.15,
                "extra_copy": 0.4, "sort_twice": 0.6, "shared_first": 0.5, "fused_latent": 0.7,
            }.items()
        }  # fmt: skip
        self.names: dict[str, str] = {}
        self.bandwidth = self.random.uniform(1.0, 5.0) * 1e12
        self.flops = self.random.uniform(200, 900) * 1e12
        self.efficiency: dict[str, float] = {}

    def _config(self) -> dict[str, Any]:
        pick = self.random.choice
        hidden = pick([2048, 3072, 4096, 5120])
        config: dict[str, Any] = {
            "model_type": pick(["llama", "qwen3"]),
            "num_hidden_layers": self.random.randint(8, 28),
            "hidden_size": hidden,
            "num_attention_heads": hidden // 128,
            "num_key_value_heads": pick([1, 4, 8]),
            "head_dim": 128,
            "intermediate_size": pick([2.5, 3, 3.5]) * hidden // 128 * 128,
            "vocab_size": pick([32000, 128256, 151936]),
        }
        if self.family in ("moe", "moe_shared"):
            config |= {
                "model_type": "qwen3_moe", "num_experts": pick([32, 64, 128]),
                "num_experts_per_tok": pick([2, 4, 8]), "moe_intermediate_size": pick([768, 1536]),
            }  # fmt: skip
        if self.family == "moe_shared":
            config |= {"model_type": "deepseek_v2", "n_shared_experts": pick([1, 2])}
        if self.family == "hybrid":
            config |= {
                "model_type": "qwen3_next", "num_hidden_layers": 4 * self.random.randint(3, 7),
                "full_attention_interval": 4, "linear_num_key_heads": 16,
                "linear_num_value_heads": 32, "linear_key_head_dim": 128,
                "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
            }  # fmt: skip
        if self.family == "mla":
            config |= {
                "model_type": "deepseek_v3", "kv_lora_rank": 512, "q_lora_rank": 1536,
                "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
                "n_routed_experts": 64, "num_experts_per_tok": 6, "moe_intermediate_size": 1408,
                "n_shared_experts": 2, "first_k_dense_replace": pick([1, 3]),
            }  # fmt: skip
        return config

    # Names and times.

    def name(self, role: str, variant: str) -> str:
        """The name of a kernel: stable for a role and variant within the trace."""
        key = f"{role}/{variant}"
        if key not in self.names:
            number = len(self.names)
            if self.scheme == "opaque" and role != "all_reduce":
                self.names[key] = f"kernel_{number * 7919 % 10007}"
            else:
                shown = role
                if self.scheme == "shuffled" and role != "all_reduce":
                    # Collectives come from a library whose names do not change.
                    shown = self.random.choice(sorted(REALISTIC.keys() - {"all_reduce"}))
                pattern = self.random.choice(REALISTIC[shown])
                tile = f"{2 ** self.random.randint(4, 8)}x{2 ** self.random.randint(3, 7)}"
                self.names[key] = pattern.format(t=f"{tile}_{number}", n=number)
        return self.names[key]

    def gemm_ns(self, op: str, parameters: float, tokens: int) -> int:
        efficiency = self.efficiency.setdefault(op, self.random.uniform(0.65, 0.95))
        read = 2 * parameters / self.ranks / self.bandwidth
        compute = 2 * parameters / self.ranks * tokens / self.flops
        return self._jitter((max(read, compute) / efficiency + 2.5e-6) * 1e9)

    def small_ns(self, values: float) -> int:
        return self._jitter(1500 + 1e9 * 6 * values / self.bandwidth)

    def _jitter(self, value: float) -> int:
        return max(int(value * self.random.gauss(1.0, 0.02)), 300)

    def kernel(self, role: str, op: str, dur: int, grid: tuple[int, int, int], layer: int,
               variant: str = "", **more: Any) -> Kernel:  # fmt: skip
        return Kernel(self.name(role, variant or op), "kernel", dur, grid, op, layer, **more)

    def gemm(self, op: str, parameters: float, tokens: int, layer: int, tile: str,
             role: str = "gemm", key: str = "") -> Kernel:  # fmt: skip
        grid = (2, max(int(parameters // 262144) % 4096, 1), 1)
        dur = self.gemm_ns(key or op, parameters, tokens)
        return self.kernel(role, op, dur, grid, layer, f"{key or op}{tile}")

    # Layers.

    def mixer(self, layer: int, tokens: int, context: int, tile: str) -> list[Kernel]:
        if self.family == "hybrid" and (layer + 1) % 4:
            return self.recurrent(layer, tokens, tile)
        return (self.latent if self.family == "mla" else self.attention)(
            layer, tokens, context, tile
        )

    def recurrent(self, layer: int, tokens: int, tile: str) -> list[Kernel]:
        hidden, keys, values = self.config["hidden_size"], 16 * 128, 32 * 128
        size = tokens * (2 * keys + values)
        state = self._jitter(1e9 * (4e-6 + 8 * tokens * 32 * 128 * 128 / self.bandwidth))
        return [
            self.gemm("ssm_in_proj", hidden * 2 * (keys + values), tokens, layer, tile),
            self.gemm("ssm_in_proj", hidden * 64, tokens, layer, tile, key="beta"),
            self.kernel("conv", "ssm_conv", self.small_ns(size), (tokens, 8, 1), layer),
            self.kernel("scan", "ssm_scan", state, (tokens, 32, 1), layer),
            self.kernel("norm", "ssm_norm", self.small_ns(tokens * values), (tokens, 1, 1), layer,
                        "gated_norm"),
            self.gemm("ssm_out_proj", values * hidden, tokens, layer, tile),
        ]  # fmt: skip

    def attention(self, layer: int, tokens: int, context: int, tile: str) -> list[Kernel]:
        c, style = self.config, self.style
        hidden, heads, kv = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
        # The output gate of a hybrid's attention is projected with its queries.
        queries = heads * (2 if self.family == "hybrid" else 1)
        out: list[Kernel] = []
        if style["separate_qkv"]:
            for part, size in (("q", queries), ("k", kv), ("v", kv)):
                out.append(
                    self.gemm("qkv_proj", hidden * size * 128, tokens, layer, tile, key=part)
                )
        else:
            out.append(
                self.gemm("qkv_proj", hidden * (queries + 2 * kv) * 128, tokens, layer, tile)
            )
        width = tokens * (heads + kv) * 128 / self.ranks
        if c["model_type"] in ("qwen3", "qwen3_moe", "qwen3_next"):
            out.append(self.kernel("norm", "qk_norm", self.small_ns(width), (tokens, 2, 1), layer))
        if style["rope_with_cache"]:
            out.append(self.kernel("rope", "rope+kv_cache_write", self.small_ns(width),
                                   (tokens, 1, 1), layer))  # fmt: skip
        else:
            out.append(self.kernel("rope", "rope", self.small_ns(width), (tokens, 1, 1), layer))
            if style["rope_twice"]:
                out.append(self.kernel("rope", "rope", self.small_ns(width / 4), (tokens, 1, 1),
                                       layer, "rope_keys"))  # fmt: skip
            out.append(self.kernel("cache", "kv_cache_write", self.small_ns(width / 4),
                                   (tokens, 1, 1), layer))  # fmt: skip
        out += self.core(layer, tokens, context, tile, kv * 256)
        out.append(self.gemm("o_proj", heads * 128 * hidden, tokens, layer, tile))
        if style["split_k_o"]:
            out.append(self.kernel("splitk", "o_proj", self.small_ns(tokens * hidden),
                                   (128, 1, 1), layer, "splitk_o"))  # fmt: skip
        return out

    def core(self, layer: int, tokens: int, context: int, tile: str, row: int) -> list[Kernel]:
        heads = self.config["num_attention_heads"]
        read = 2 * row * context / self.ranks / self.bandwidth
        compute = 4 * heads * 128 * tokens * min(context, 4096) / self.flops / self.ranks
        dur = self._jitter((max(read, compute) / 0.6 + 8e-6) * 1e9)
        out = [self.kernel("attention", "attention", dur, (132, 1, 1), layer, f"attention{tile}")]
        if self.style["combine"] and not tile:
            out.append(self.kernel("combine", "attention", self.small_ns(tokens * 4096),
                                   (max(tokens * 5, 1), 1, 1), layer, "combine"))  # fmt: skip
        if self.style["fill_attention"]:
            out.append(self.kernel("fill", "attention", 760, (1, 1, 1), layer, "semaphore"))
        return out

    def latent(self, layer: int, tokens: int, context: int, tile: str) -> list[Kernel]:
        c = self.config
        hidden, heads, rank = c["hidden_size"], c["num_attention_heads"], c["q_lora_rank"]
        out: list[Kernel] = []

        def norm(op: str) -> Kernel:
            return self.kernel("norm", op, self.small_ns(tokens * 1536), (tokens, 1, 1), layer)

        if self.style["fused_latent"]:
            out.append(self.gemm("q_a_proj+kv_a_proj", hidden * (rank + 576), tokens, layer, tile))
            out += [norm("q_a_norm")]
            out.append(self.gemm("q_b_proj", rank * heads * 192, tokens, layer, tile))
            out += [norm("kv_a_norm")]
        else:
            out += [self.gemm("q_a_proj", hidden * rank, tokens, layer, tile), norm("q_a_norm")]
            out.append(self.gemm("q_b_proj", rank * heads * 192, tokens, layer, tile))
            out += [self.gemm("kv_a_proj", hidden * 576, tokens, layer, tile), norm("kv_a_norm")]
        out.append(self.kernel("rope", "rope", self.small_ns(tokens * heads * 64),
                               (tokens, 1, 1), layer))  # fmt: skip
        out.append(self.kernel("cache", "kv_cache_write", self.small_ns(tokens * 576),
                               (tokens, 1, 1), layer))  # fmt: skip
        out.append(self.gemm("kv_b_proj", 512 * heads * 128, tokens, layer, tile, key="w_uk"))
        out += self.core(layer, tokens, context, tile, 576)
        out.append(self.gemm("kv_b_proj", 512 * heads * 128, tokens, layer, tile, key="w_uv"))
        out.append(self.gemm("o_proj", heads * 128 * hidden, tokens, layer, tile))
        return out

    def mlp(self, layer: int, tokens: int, tile: str) -> list[Kernel]:
        c = self.config
        experts = c.get("num_experts") or c.get("n_routed_experts") or 0
        if not experts or layer < c.get("first_k_dense_replace", 0):
            return self.dense(layer, tokens, tile, "gate_up_proj", "activation", "down_proj",
                              c["intermediate_size"])  # fmt: skip
        width, hidden, top = c["moe_intermediate_size"], c["hidden_size"], c["num_experts_per_tok"]
        shared: list[Kernel] = []
        if count := c.get("n_shared_experts"):
            shared = self.dense(layer, tokens, tile, "shared_gate_up", "shared_activation",
                                "shared_down", width * count)  # fmt: skip
        used = experts * (1 - (1 - top / experts) ** tokens)
        small = self.small_ns(tokens * experts)
        out = list(shared) if self.style["shared_first"] else []
        out.append(self.gemm("router", hidden * experts, tokens, layer, tile))
        out.append(self.kernel("topk", "router_topk", small, (max(tokens // 4, 1), 1, 1), layer))
        if not self.style["shared_first"]:
            out += shared
        out.append(self.kernel("sort", "expert_dispatch", small, (1, 1, 1), layer))
        if self.style["sort_twice"]:
            out.append(self.kernel("sort", "expert_dispatch", small, (2, 1, 1), layer, "sort2"))
        out.append(self.gemm("experts_gate_up", 2 * hidden * width * used, top * tokens / used,
                             layer, tile, role="experts"))  # fmt: skip
        out.append(self.kernel("activation", "experts_activation",
                               self.small_ns(tokens * top * width * 2), (tokens * top, 1, 1),
                               layer))  # fmt: skip
        out.append(self.gemm("experts_down", hidden * width * used, top * tokens / used,
                             layer, tile, role="experts"))  # fmt: skip
        out.append(self.kernel("sum", "expert_combine", self.small_ns(tokens * hidden * top),
                               (tokens, 1, 1), layer))  # fmt: skip
        return out

    def dense(self, layer: int, tokens: int, tile: str, up: str, act: str, down: str,
              width: float) -> list[Kernel]:  # fmt: skip
        hidden = self.config["hidden_size"]
        out: list[Kernel] = []
        if self.style["memset_up"] and up == "gate_up_proj":
            out.append(Kernel("Memset (Device)", "memset", 900, None, up, layer, bytes=4))
        fused = self.style["activation_fused"]
        out.append(self.gemm(f"{up}+{act}" if fused else up, 2 * hidden * width, tokens, layer,
                             tile))  # fmt: skip
        if not fused:
            out.append(self.kernel("activation", act, self.small_ns(tokens * width * 2),
                                   (tokens, 1, 1), layer))  # fmt: skip
        out.append(self.gemm(down, hidden * width, tokens, layer, tile))
        if self.style["split_k_down"] and down == "down_proj":
            out.append(self.kernel("splitk", down, self.small_ns(tokens * hidden), (128, 1, 1),
                                   layer, "splitk_down"))  # fmt: skip
        return out

    # Steps.

    def norm(self, op: str, tokens: int, layer: int, variant: str) -> Kernel:
        size = tokens * self.config["hidden_size"] * 2
        return self.kernel("norm", op, self.small_ns(size), (tokens, 1, 1), layer, variant)

    def reduce(self, tokens: int, layer: int) -> list[Kernel]:
        if self.ranks == 1:
            return []
        dur = self._jitter(8000 + 1e9 * 4 * tokens * self.config["hidden_size"] / 3e11)
        return [self.kernel("all_reduce", "all_reduce", dur, (24, 1, 1), layer, collective=True)]

    def forward(self, tokens: int, context: int, tile: str) -> list[Kernel]:
        out: list[Kernel] = []
        for layer in range(self.config["num_hidden_layers"]):
            first = layer == 0
            out.append(self.norm("input_norm", tokens, layer, "first" if first else "residual_1"))
            out += self.mixer(layer, tokens, context, tile)
            out += self.reduce(tokens, layer)
            out.append(self.norm("post_attention_norm", tokens, layer, "residual_2"))
            out += self.mlp(layer, tokens, tile)
            out += self.reduce(tokens, layer)
        out.append(self.norm("final_norm", tokens, -1, "residual_1"))
        return out

    def prologue(self, tokens: int) -> list[Kernel]:
        out = [Kernel("Memcpy HtoD (Pinned -> Device)", "memcpy", 900, None, "prepare_inputs",
                      bytes=4 * tokens)]  # fmt: skip
        for number in range(4):
            out.append(self.kernel("prepare", "prepare_inputs", 1800 + 300 * number,
                                   (max(tokens // 128, 1), 1, 1), -1, f"prepare{number}"))  # fmt: skip
        if not self.style["fused_embedding"]:
            size = tokens * self.config["hidden_size"]
            out.append(self.kernel("embedding", "embedding", self.small_ns(size),
                                   (tokens, 1, 1), -1))  # fmt: skip
        return out

    def epilogue(self, sequences: int) -> list[Kernel]:
        vocabulary, hidden = self.config["vocab_size"], self.config["hidden_size"]
        out = [self.kernel("gather", "select_logits", self.small_ns(sequences * hidden),
                           (sequences, 2, 1), -1)]  # fmt: skip
        out.append(self.gemm("lm_head", vocabulary * hidden, sequences, -1, ""))
        for number in range(3):
            out.append(self.kernel("sample", "sampling", self.small_ns(sequences * vocabulary),
                                   (sequences, 126, 1), -1, f"sample{number}"))  # fmt: skip
        out.append(Kernel("Memcpy DtoH (Device -> Pinned)", "memcpy", 1400, None,
                          "collect_outputs", side=True, bytes=8 * sequences))  # fmt: skip
        if self.style["extra_copy"]:
            out.append(Kernel("Memcpy DtoH (Device -> Pinned)", "memcpy", 1300, None,
                              "collect_outputs", side=True, bytes=4 * sequences))  # fmt: skip
        return out

    def schedule(self) -> list[tuple[str, int, int]]:
        """Phase, decoding sequences, prompt tokens of each step."""
        batch = self.random.choice([1, 3, 8, 32])
        steps = [("prefill", batch, batch * self.random.choice([64, 128, 256]))]
        for _ in range(self.random.randint(4, 8)):
            steps.append(("decode", batch, 0))
            if self.random.random() < 0.25 and batch >= 3:
                steps.append(("mixed", batch, self.random.choice([200, 400])))
                batch += 1
        return steps

    def generate(self) -> Synthetic:
        """The trace of all ranks."""
        plan = self.schedule()
        per_rank: list[list[tuple[int, Kernel, bool]]] = [[] for _ in range(self.ranks)]
        for number, (phase, batch, prompt) in enumerate(plan):
            decoding = 0 if phase == "prefill" else batch
            sequences = batch + (phase == "mixed")
            tokens = decoding + prompt
            tile = "" if phase == "decode" else "_wide"
            parts = [
                (self.prologue(tokens), False),
                (self.forward(tokens, 600 * sequences, tile), self.style["graph"] and not prompt),
                (self.epilogue(sequences), False),
            ]
            for members in per_rank:
                for kernels, replayed in parts:
                    members += [(number, one, replayed) for one in kernels]
        return self._write(plan, per_rank)

    def _write(self, plan: list[tuple[str, int, int]],
               per_rank: list[list[tuple[int, Kernel, bool]]]) -> Synthetic:  # fmt: skip
        rows: list[dict[str, Any]] = []
        truth: list[tuple[int, int, int, str]] = []
        clocks = [1_000_000_000 + self.random.randint(0, 20_000) for _ in range(self.ranks)]
        correlation = [100] * self.ranks
        waits = dict.fromkeys(range(self.ranks), 0)
        last_replayed = [False] * self.ranks
        for position in range(len(per_rank[0])):
            group = [members[position] for members in per_rank]
            starts = []
            for rank, (_, kernel, replayed) in enumerate(group):
                gap = (
                    self.random.randint(300, 700) if replayed else self.random.randint(2000, 30000)
                )
                if replayed and self.style["overlap"] and self.random.random() < 0.3:
                    gap = -200
                if not replayed or not last_replayed[rank]:
                    correlation[rank] += self.random.randint(1, 12)
                last_replayed[rank] = replayed
                starts.append(clocks[rank] + (0 if kernel.side else gap))
            arrived = max(starts)
            for rank, (step, kernel, _) in enumerate(group):
                dur = kernel.dur if rank == 0 else self._jitter(kernel.dur)
                if kernel.collective:
                    waits[rank] += arrived - starts[rank]
                    dur = arrived + kernel.dur - starts[rank]
                truth.append((len(rows), step, kernel.layer, kernel.op))
                rows.append(self._row(kernel, starts[rank], dur, rank, correlation[rank]))
                if not kernel.side:
                    clocks[rank] = starts[rank] + dur
        events = pl.DataFrame(rows, schema=schema.event_columns())
        trace = Trace(TraceHeader(source="kineto"), events)
        batches = [batch for _, batch, _ in plan]
        return Synthetic(trace, self.config, truth, [phase for phase, _, _ in plan], batches,
                         self.ranks, waits, self.scheme)  # fmt: skip

    def _row(self, kernel: Kernel, start: int, dur: int, rank: int, launch: int) -> dict[str, Any]:
        return {
            "kind": kernel.kind, "name": kernel.name, "category": kernel.kind, "start_ns": start,
            "dur_ns": dur, "rank": rank, "device": rank, "stream": 13 if kernel.side else 7,
            "pid": rank, "tid": 7, "correlation": launch, "grid": kernel.grid,
            "block": None if kernel.grid is None else (128, 1, 1), "bytes": kernel.bytes,
        }  # fmt: skip
