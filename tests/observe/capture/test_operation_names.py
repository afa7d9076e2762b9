"""What the engine's labels mean, for layers that are not attention over keys and values."""

import pytest

from assay.engine import Engine
from assay.engine.loading.synthetic import synthetic_model
from assay.observe import operations
from assay.observe.capture.operation_names import OperationNames

LATENT = {
    "q_a_proj", "q_a_norm", "q_b_proj", "kv_a_proj", "kv_a_norm", "kv_b_proj", "rope",
    "kv_cache_write", "attention", "o_proj", "router_topk", "experts_down", "shared_down",
}  # fmt: skip
STATE_SPACE = {
    "input_norm", "ssm_in_proj", "ssm_conv", "ssm_scan", "ssm_norm", "ssm_out_proj",
}  # fmt: skip


@pytest.mark.parametrize(
    ("architecture", "needed"),
    [("deepseek_v2", LATENT), ("deepseek_v3", LATENT), ("mamba2", STATE_SPACE)],
)
def test_every_operation_of_a_step_has_a_canonical_name(
    architecture: str, needed: set[str]
) -> None:
    with Engine.load(synthetic_model(architecture), max_batch=2) as engine:
        names = OperationNames(engine.model)
        nodes = [time.node for time in engine.profile(2, 20)]
    meanings = [names.meaning(node.label, node.operation, None).operation for node in nodes]
    unnamed = [node.label for node, name in zip(nodes, meanings, strict=True) if name is None]
    assert not unnamed
    found = {name for name in meanings if name is not None}
    assert all(operations.is_operation(name) for name in found)
    assert needed <= {part for name in found for part in operations.parts(name)}
