"""Fields, parts and paths of other servers: what to use here instead."""

from __future__ import annotations

from typing import Any, Final

_FIELDS: Final = {
    "repeat_penalty": "repetition_penalty is the name here",
    **dict.fromkeys(("n_predict", "num_predict", "max_new_tokens"), "max_tokens is the name here"),
    **dict.fromkeys(("num_ctx", "n_ctx"), "--kv-tokens of the server sets the KV cache"),
    **dict.fromkeys(("functions", "function_call"), "tools and tool_choice replaced it"),
    **dict.fromkeys(("grammar", "regex", "choice"), "structured_outputs has it"),
    **dict.fromkeys(("json_schema", "format"), "response_format has it"),
    "options": "sampling parameters are fields of the request",
    "think": 'chat_template_kwargs: {"enable_thinking": true}',
    "chat_template": "--chat-template of the server sets it",
    **dict.fromkeys(("modalities", "audio"), "models here read and write text"),
    "web_search_options": "tools of the client can be called, no search of the server's",
    "previous_response_id": "nothing is stored: send the conversation",
    **dict.fromkeys(("typical_p", "mirostat", "tfs_z", "xtc_probability", "dry_multiplier"),
                    "sampling has temperature, top_k, top_p, min_p and penalties"),
    **dict.fromkeys(("n_probs", "top_logprobs_num"), "logprobs is the name here"),
    "cache_prompt": "prefixes are always cached",
    "keep_alive": "a model stays loaded until the server ends",
    "allowed_token_ids": "logit_bias or structured_outputs bound the tokens",
    "logits_processors": "code of clients is not run",
    "truncate_prompt_tokens": "shorten the prompt",
    "prediction": "--knob speculation_depth=4 of the server drafts from the text so far",
    "verbosity": "ask for short or long answers in a message",
}  # fmt: skip
"""Fields that users of llama.cpp, Ollama, vLLM and OpenAI send."""

_KINDS: Final = {
    **dict.fromkeys(("image_url", "input_image", "image"), "models here read text, no images"),
    **dict.fromkeys(("input_audio", "audio_url"), "models here read text, no audio"),
    **dict.fromkeys(("video_url", "file", "input_file", "file_url"), "models here read text"),
    **dict.fromkeys(
        ("web_search", "web_search_preview", "file_search", "code_interpreter", "mcp",
         "image_generation", "computer_use_preview", "local_shell"),
        "the server has no tools of its own: only functions of the client can be called",
    ),
}  # fmt: skip
"""Types of message parts and tools."""

_PATHS: Final = {
    "/docs": "GET /openapi.json describes the interface",
    "/v1/docs": "GET /openapi.json describes the interface",
    "/version": "GET /server_info has the release and the settings",
    "/props": "GET /server_info has the settings, GET /v1/models the context",
    "/slots": "GET /metrics has the requests under way",
    "/load": "GET /metrics has the requests under way",
    "/ping": "GET /health says whether requests are accepted",
    "/apply-template": "POST /tokenize with messages renders the chat template",
    "/pooling": "POST /v1/embeddings embeds texts",
    "/api/": "Ollama's interface is not served: use /v1/chat/completions or /v1/completions",
    "/completion": "use /v1/completions",
    "/infill": "use /v1/completions with suffix",
    "/v1/messages": "Anthropic's interface is not served: use /v1/chat/completions",
    **dict.fromkeys(
        ("/v1/audio/transcriptions", "/v1/audio/translations"),
        "start the server with --transcription-model NAME",
    ),
    "/v1/audio": "/v1/audio/speech says a text; --transcription-model NAME of the server serves transcriptions",
    "/v1/images": "models here read and write text",
    "/v1/moderations": "no model here judges texts",
    "/v1/files": "nothing is stored here",
    "/v1/batches": "send the requests: assay load sends many",
    "/v1/threads": "nothing is stored here: use /v1/responses or /v1/chat/completions",
    "/v1/assistants": "nothing is stored here: use /v1/responses or /v1/chat/completions",
    "/start_profile": "start the server with --trace FOLDER",
    "/stop_profile": "start the server with --trace FOLDER",
    "/sleep": "start the server with --enable-sleep-mode",
    "/wake_up": "start the server with --enable-sleep-mode",
    "/v1/load_lora_adapter": "start the server with --lora-folder FOLDER",
    "/v1/unload_lora_adapter": "start the server with --lora-folder FOLDER",
}
"""How the paths of other interfaces begin."""


def field_hint(name: str) -> str:
    """What to use instead of a field, after a colon; empty for one that nobody knows."""
    return f": {_FIELDS[name]}" if name in _FIELDS else ""


def kind_hint(value: Any) -> str:
    """Why a type of part or tool is not here, after a colon."""
    return f": {_KINDS[value]}" if isinstance(value, str) and value in _KINDS else ""


def path_hint(path: str) -> str:
    """What serves instead of a path that is not here, after a colon."""
    if path in ("/", "/v1", "/v1/"):
        return ": models are listed at /v1/models, and chats go to /v1/chat/completions"
    for begin, hint in _PATHS.items():
        if path == begin.rstrip("/") or path.startswith(begin):
            return f": {hint}"
    return ""
