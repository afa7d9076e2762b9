"""Neural operations over arrays: thin calls of the kernels that each device registers by name."""

from assay.ops.activations import (
    activate as activate,
    gelu as gelu,
    sigmoid as sigmoid,
    softmax as softmax,
    swiglu as swiglu,
    tanh as tanh,
)
from assay.ops.adapters import (
    expands as expands,
    lora_expand as lora_expand,
    lora_linear as lora_linear,
    lora_shrink as lora_shrink,
)
from assay.ops.attention import (
    attention as attention,
    decode_attention as decode_attention,
    paged_attention as paged_attention,
)
from assay.ops.channels import (
    adain as adain,
    group_norm as group_norm,
    instance_norm as instance_norm,
    leaky_relu as leaky_relu,
    snake as snake,
)
from assay.ops.convolutions import (
    conv1d as conv1d,
    conv2d as conv2d,
    conv_transpose1d as conv_transpose1d,
)
from assay.ops.experts import (
    combine_experts as combine_experts,
    combine_linear as combine_linear,
    grouped_linear as grouped_linear,
    route as route,
    router as router,
)
from assay.ops.gather import embedding as embedding, gather_rows as gather_rows
from assay.ops.latent_attention import (
    latent_attention as latent_attention,
    latent_write as latent_write,
)
from assay.ops.linear import linear as linear
from assay.ops.matmul import batched_matmul as batched_matmul
from assay.ops.norms import layer_norm as layer_norm, rms_norm as rms_norm
from assay.ops.packing import pack as pack
from assay.ops.pairs import (
    channel_projection as channel_projection,
    gated_attention as gated_attention,
    outer_product_mean as outer_product_mean,
    transition as transition,
    triangle_update as triangle_update,
)
from assay.ops.point_clouds import (
    PillarGrid as PillarGrid,
    Pillars as Pillars,
    pillar_features as pillar_features,
    pillarize as pillarize,
    rotated_nms as rotated_nms,
)
from assay.ops.quantization import dequantize as dequantize, quantize as quantize
from assay.ops.recurrent import (
    LSTMWeights as LSTMWeights,
    bidirectional_lstm as bidirectional_lstm,
    lstm as lstm,
)
from assay.ops.residual import (
    add_residual as add_residual,
    norm_columns as norm_columns,
    scale as scale,
)
from assay.ops.rope import (
    RopeTable as RopeTable,
    rope as rope,
    rope_table as rope_table,
    rope_write as rope_write,
)
from assay.ops.sampling import mask_logits as mask_logits, penalize as penalize, sample as sample
from assay.ops.state_space import (
    causal_convolution as causal_convolution,
    selective_scan as selective_scan,
)
from assay.ops.weights import Weights as Weights
