"""`assay serve`: an OpenAI-compatible HTTP server."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli import options, sampling, serve_models
from assay.cli.completion import complete_models
from assay.cli.declaring import argument, option
from assay.cli.output import show_progress, to_json
from assay.cli.verbosity import is_quiet
from assay.errors import InputError
from assay.second_process import SecondProcess

if TYPE_CHECKING:
    from assay.engine.server.app import Profiler
    from assay.engine.server.http_settings import HttpSettings

KEY_VARIABLE = "ASSAY_API_KEY"
HTTP_MODULE = "assay.engine.server.http_process"
LEAST_CORES = 4
"""Cores from which HTTP has a process of its own: on fewer it would take those of the engine."""


def serve_command(
    model: Annotated[
        list[str],
        argument(
            "MODEL...",
            "A GGUF file, a Hugging Face folder, or a name; several as NAME=MODEL.",
            autocompletion=complete_models,
        ),
    ],
    host: Annotated[str, option("--host ADDRESS", "Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, option("--port PORT", "Port; 0 picks a free one.", min=0, max=65535)
    ] = 8000,
    name: Annotated[
        str | None, option("--name NAME", "Model name in the API; MODEL if not given.")
    ] = None,
    api_key: Annotated[
        str | None,
        option("--api-key KEY", f"API key that clients must send; also read from {KEY_VARIABLE}."),
    ] = None,
    insecure: Annotated[
        bool, option("--insecure", "Listen beyond the loopback address without an API key.")
    ] = False,
    access_log: Annotated[
        bool,
        option("--access-log/--no-access-log", "Log every request to stderr; on if not given."),
    ] = True,
    max_requests: Annotated[
        int | None,
        option(
            "--max-requests COUNT",
            "Most running and waiting requests; if not given, what open files and memory allow.",
            min=1,
        ),
    ] = None,
    http_process: Annotated[
        bool | None,
        option(
            "--http-process/--no-http-process",
            "Serve HTTP in a process of its own; if not given, with 4 cores or more.",
        ),
    ] = None,
    max_body: Annotated[
        int, option("--max-body BYTES", "Bytes of a request body at most.", min=1)
    ] = 1 << 20,
    drain: Annotated[
        float,
        option("--drain SECONDS", "Time to finish requests after SIGTERM or ctrl-c.", min=0.0),
    ] = 30.0,
    trace: Annotated[
        Path | None,
        option(
            "--trace FOLDER",
            "Let clients capture traces into FOLDER: POST /start_profile and /stop_profile.",
        ),
    ] = None,
    tool_call_parser: Annotated[
        str,
        option(
            "--tool-call-parser NAME",
            "Format of tool calls, by vLLM's name; auto reads the chat template, none is off.",
        ),
    ] = "auto",
    reasoning_parser: Annotated[
        str,
        option(
            "--reasoning-parser NAME",
            "Markers of reasoning, by vLLM's name; auto reads the chat template, none is off.",
        ),
    ] = "auto",
    chat_template: sampling.ChatTemplateFile = None,
    max_model_len: Annotated[
        int | None,
        option("--max-model-len COUNT", "Tokens of a prompt and its output at most.", min=1),
    ] = None,
    allowed_origin: Annotated[
        list[str] | None,
        option(
            "--allowed-origin ORIGIN",
            "Let pages of ORIGIN use the server (CORS), such as http://localhost:3000.",
        ),
    ] = None,
    share: Annotated[
        list[str] | None,
        option(
            "--share NAME=PERCENT...",
            "Share of device time of each of several models; equal if not given.",
        ),
    ] = None,
    guarantee: Annotated[
        list[str] | None,
        option(
            "--guarantee NAME",
            "Reserve the share of this model: its steps go before those of others.",
        ),
    ] = None,
    lora: Annotated[
        list[str] | None,
        option(
            "--lora NAME=FOLDER",
            "Serve a LoRA adapter (PEFT) as model NAME; of one of several: MODEL:NAME=FOLDER.",
        ),
    ] = None,
    transcription_model: Annotated[
        str | None,
        option(
            "--transcription-model NAME",
            "Serve /v1/audio/transcriptions and translations by this model of speech.",
        ),
    ] = None,
    lora_folder: Annotated[
        Path | None,
        option(
            "--lora-folder FOLDER",
            "Let clients load adapters from below FOLDER: POST /v1/load_lora_adapter.",
        ),
    ] = None,
    sleep_mode: Annotated[
        bool,
        option(
            "--enable-sleep-mode",
            "Let clients move weights to host memory and back: POST /sleep and /wake_up.",
        ),
    ] = False,
    slo: Annotated[
        str | None,
        option(
            "--slo LIMITS",
            "Choose settings that keep these limits of a request, such as ttft=1s,tpot=25ms.",
        ),
    ] = None,
    device: sampling.Device = None,
    threads: sampling.Threads = None,
    kv_tokens: sampling.KvTokens = None,
    knob: sampling.Knobs = None,
    as_json: options.Json = False,
) -> int:
    """Serve models over HTTP.

    OpenAI-compatible: /v1/models, /v1/completions, /v1/chat/completions, /v1/responses and
    /v1/embeddings, besides /tokenize, /detokenize, /health and /metrics. Listens on the loopback
    address by default; beyond it an API key is needed. SIGTERM or ctrl-c drains the requests under
    way and exits with 0; a second ctrl-c exits at once with 130. With --json, the URL is printed to
    stdout.

    Several models share one device: serve a=MODEL b=MODEL --share a=70 b=30 --guarantee a. Requests
    choose by "model"; --knob b.max_batch=8 sets a knob of one of them. LoRA adapters are chosen by
    "model", too: serve FOLDER --lora sql=ADAPTER.

    On a GPU, batch, token budget and KV cache follow from the model, the free memory and what is
    predicted of its steps; --slo bounds them, and --knob and --kv-tokens go before both.
    """
    missing = [n for n in ("fastapi", "uvicorn", "prometheus_client") if not _is_installed(n)]
    if missing:
        raise InputError(
            f"assay serve needs {', '.join(missing)}, which is not installed",
            "install them with: pip install 'assay[serve]'",
        )
    # The second process imports what it needs while this one does.
    with SecondProcess(HTTP_MODULE) if _has_own_process(http_process) else nullcontext() as second:
        from assay.engine.server import Limits, check_key, listen
        from assay.engine.server.http_settings import FileSource, HttpSettings
        from assay.engine.server.logs import LogSettings

        key = os.environ.get(KEY_VARIABLE) if api_key is None else api_key
        if key is not None:
            check_key(key)
        if lora_folder is not None and not lora_folder.is_dir():
            raise InputError(f"--lora-folder: expected a folder, got {lora_folder}")
        with listen(host, port) as listener:
            address = listener.getsockname()
            if key is None and not insecure and not ipaddress.ip_address(address[0]).is_loopback:
                raise InputError(
                    f"--host {host}: expected an API key to listen beyond the loopback, got none",
                    f"set {KEY_VARIABLE} or --api-key; --insecure serves everybody who can connect",
                )
            requests = serve_models.parse(
                model, name=name, shares=share or (), guaranteed=guarantee or ()
            )
            if trace is not None and len(requests) > 1:
                raise InputError(
                    f"--trace: expected one model, got {len(requests)}",
                    "traces of engines that share a device are not supported",
                )
            settings = HttpSettings(
                [
                    FileSource(
                        request.name,
                        request.source,
                        tool_call_parser,
                        reasoning_parser,
                        chat_template,
                    )
                    for request in requests
                ],
                api_key=key,
                limits=Limits(requests=max_requests, body_bytes=max_body),
                allowed_origins=allowed_origin or (),
                adapter_folder=lora_folder,
                sleep_mode=sleep_mode,
                transcription_model=transcription_model,
                can_profile=trace is not None,
                shares_device=any(request.share is not None for request in requests),
                drain_seconds=drain,
                logs=LogSettings(quiet=is_quiet(), access=access_log),
            )
            process = None
            if second is not None:
                from assay.engine.server.engine_process import HttpProcess

                # It reads the tokenizers while the weights are loaded here.
                process = HttpProcess(second, listener, settings)
            served = serve_models.load(
                requests,
                device=device,
                kv_tokens=kv_tokens,
                knobs=serve_models.with_threads(knob or (), threads),
                chat_template=chat_template,
                max_model_len=max_model_len,
                adapters=lora or (),
                slo=slo,
            )
            shown = f"[{address[0]}]" if ":" in address[0] else address[0]
            _show_address(f"http://{shown}:{address[1]}", served, as_json=as_json)
            if settings.logs is not None:
                settings.logs.apply()
            profiler = None
            if trace is not None:
                from assay.observe.capture.profiler import TraceProfiler

                profiler = TraceProfiler(trace)
            if process is None:
                _serve_here(listener, settings, served, profiler)
            else:
                process.serve(served.engines, profiler=profiler, sharing=served.sharing)
    return 0


def _serve_here(
    listener: Any, settings: HttpSettings, served: serve_models.Served, profiler: Profiler | None
) -> None:
    """Serve HTTP in this process, beside the threads of the engines."""
    from assay.engine.server import HostedModel, create_app, serve

    first, *others = [
        HostedModel(loaded.engine, source.of_engine(loaded), loaded.place, loaded.facts.adapters)
        for loaded, source in zip(served.engines, settings.sources, strict=True)
    ]
    app = create_app(
        first.engine,
        first.model,
        adapters=first.adapters,
        others=others,
        place=first.place,
        sharing=served.sharing,
        api_key=settings.api_key,
        limits=settings.limits,
        profiler=profiler,
        allowed_origins=settings.allowed_origins,
        adapter_folder=settings.adapter_folder,
        sleep_mode=settings.sleep_mode,
        transcription_model=settings.transcription_model,
    )
    serve(app, listener, drain_seconds=settings.drain_seconds)


def _show_address(url: str, served: serve_models.Served, *, as_json: bool) -> None:
    """Print where the models are served."""
    names = [name for loaded in served.engines for name in (loaded.name, *loaded.facts.adapters)]
    if as_json:
        facts = {"url": url, "model": names[0], "synthetic": served.synthetic}
        sys.stdout.write(to_json(facts if len(names) == 1 else {**facts, "models": names}) + "\n")
        sys.stdout.flush()
    else:
        show_progress(f"serving {', '.join(names)} on {served.device} at {url}")


def _has_own_process(chosen: bool | None) -> bool:
    """Whether HTTP is served by a process of its own: as chosen, or where there are cores for it."""
    return len(os.sched_getaffinity(0)) >= LEAST_CORES if chosen is None else chosen


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
