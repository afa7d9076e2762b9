"""Where the inputs of a step are in the array that is uploaded."""

from __future__ import annotations

from assay.engine.models.step_buffers import StepShape

SAMPLING_INTEGERS = ("logits_indices", "top_k", "steps")
SAMPLING_FLOATS = ("temperature", "top_p", "min_p", "repetition", "presence", "frequency")


class InputLayout:
    """Where each input of a step starts in one array of 32-bit words, uploaded at once.

    The order is: seeds (two words each), input IDs, attention metadata (positions, slot mapping,
    query start locations, sequence lengths, block tables), then the parameters of each sample.
    """

    def __init__(self, shape: StepShape) -> None:
        """Lay out the inputs of a step of this shape."""
        tokens, seqs, samples = shape.num_tokens, shape.num_seqs, shape.num_samples
        end = 0

        def words(count: int) -> slice:
            nonlocal end
            end += count
            return slice(end - count, end)

        self.seeds = words(2 * samples)
        self.input_ids = words(tokens)
        self.adapters = words(tokens if shape.adapted else 0)
        metadata = end
        self.positions, self.slot_mapping = words(tokens), words(tokens)
        self.query_start_loc, self.seq_lens = words(seqs + 1), words(seqs)
        self.block_tables = words(seqs * shape.block_table_width)
        self.attention_metadata = slice(metadata, end)
        """What the block manager writes."""
        self.integers = {name: words(samples) for name in SAMPLING_INTEGERS}
        self.floats = {name: words(samples) for name in SAMPLING_FLOATS}
        self.num_words = end
