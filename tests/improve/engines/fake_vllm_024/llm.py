"""An `LLM` that counts up from the sum of its prompt; every second step returns nothing, as vLLM's
asynchronous scheduling does, and every other one two tokens, as speculation does."""

from types import SimpleNamespace

from fake_vllm_024.sampling_params import RequestOutputKind

VOCABULARY = 5000
LONGEST = 50
ALIVE = []
LIMITS = {"starts": 1000}


class InprocClient:
    def shutdown(self):
        ALIVE.pop()


class Engine:
    def __init__(self, config):
        self.vllm_config = config
        self.engine_core = InprocClient()
        self.requests = {}
        self.steps = 0

    def add_request(self, name, prompt, params):
        assert params.output_kind is RequestOutputKind.DELTA
        tokens = prompt["prompt_token_ids"]
        if len(tokens) > LONGEST:
            raise ValueError("the prompt is longer than the maximum model length")
        self.requests[name] = [tokens, params, 0]
        return f"{name}-internal"

    def has_unfinished_requests(self):
        return bool(self.requests)

    def abort_request(self, names):
        for name in names:
            self.requests.pop(name, None)

    def step(self):
        self.steps += 1
        if self.steps % 2:
            return []
        outputs = []
        for name, (tokens, params, made) in list(self.requests.items()):
            count = min(2, params.max_tokens - made)
            new = [(sum(tokens) + made + one) % VOCABULARY for one in range(count)]
            self.requests[name][2] += count
            finished = made + count == params.max_tokens
            if finished:
                del self.requests[name]
            outputs.append(
                SimpleNamespace(
                    request_id=name,
                    outputs=[SimpleNamespace(token_ids=new)],
                    finished=finished,
                    prompt_token_ids=tokens,
                    num_cached_tokens=0,
                )
            )
        return outputs


class LLM:
    def __init__(
        self, model, enforce_eager=False, max_num_seqs=None, gpu_memory_utilization=0.92, **more
    ):
        assert not ALIVE, "two engines do not fit"
        if gpu_memory_utilization > 0.95:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
        if max_num_seqs == 14:
            LIMITS["starts"] = 0
        if LIMITS["starts"] <= 0:
            raise RuntimeError("Engine core initialization failed")
        if max_num_seqs == 13:
            raise ValueError("1 validation error for SchedulerConfig")
        ALIVE.append(self)
        self.resets = 0
        self.llm_engine = Engine(
            SimpleNamespace(
                model_config=SimpleNamespace(
                    model=model, enforce_eager=enforce_eager, quantization=None, tokenizer=model,
                    disable_cascade_attn=False, skip_tokenizer_init=True, max_model_len=64,
                    dtype="bfloat16", trust_remote_code=False, seed=0,
                    get_vocab_size=lambda: VOCABULARY,
                ),
                scheduler_config=SimpleNamespace(
                    max_num_seqs=max_num_seqs or 256, max_num_batched_tokens=8192,
                    enable_chunked_prefill=True, async_scheduling=True, policy="fcfs",
                    long_prefill_token_threshold=0,
                ),
                cache_config=SimpleNamespace(
                    block_size=16, enable_prefix_caching=True, cache_dtype="auto",
                    gpu_memory_utilization=gpu_memory_utilization,
                ),
                compilation_config=SimpleNamespace(
                    max_cudagraph_capture_size=0 if enforce_eager else 512
                ),
                load_config=SimpleNamespace(load_format="dummy"),
                parallel_config=SimpleNamespace(tensor_parallel_size=1),
                optimization_level=0 if enforce_eager else 2,
            )
        )  # fmt: skip

    def reset_prefix_cache(self):
        self.resets += 1

    def generate(self, prompts, params, use_tqdm=True):
        found = []
        for prompt in prompts:
            first = sum(prompt["prompt_token_ids"]) % VOCABULARY
            ids = [first + one for one in range(params.max_tokens)]
            tops = [
                {one: SimpleNamespace(logprob=-0.5), one + 1: SimpleNamespace(logprob=-1.25)}
                for one in ids
            ]
            found.append(SimpleNamespace(outputs=[SimpleNamespace(token_ids=ids, logprobs=tops)]))
        return found
