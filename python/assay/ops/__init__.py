"""Neural operations over arrays: thin calls of the kernels that each device registers by name."""

from assay.ops.activations import activate, softmax, swiglu
from assay.ops.attention import attention, decode_attention, paged_attention
from assay.ops.experts import combine_experts, combine_linear, grouped_linear, route, router
from assay.ops.gather import embedding, gather_rows
from assay.ops.latent_attention import latent_attention, latent_write
from assay.ops.linear import linear
from assay.ops.matmul import batched_matmul
from assay.ops.norms import layer_norm, rms_norm
from assay.ops.packing import pack
from assay.ops.quantization import dequantize, quantize
from assay.ops.residual import add_residual, norm_columns, scale
from assay.ops.rope import RopeTable, rope, rope_table, rope_write
from assay.ops.sampling import penalize, sample
from assay.ops.state_space import causal_convolution, selective_scan
from assay.ops.weights import Weights

__all__ = [
    "RopeTable",
    "Weights",
    "activate",
    "add_residual",
    "attention",
    "batched_matmul",
    "causal_convolution",
    "combine_experts",
    "combine_linear",
    "decode_attention",
    "dequantize",
    "embedding",
    "gather_rows",
    "grouped_linear",
    "latent_attention",
    "latent_write",
    "layer_norm",
    "linear",
    "norm_columns",
    "pack",
    "paged_attention",
    "penalize",
    "quantize",
    "rms_norm",
    "rope",
    "rope_table",
    "rope_write",
    "route",
    "router",
    "sample",
    "scale",
    "selective_scan",
    "softmax",
    "swiglu",
]
