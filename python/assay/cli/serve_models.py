"""The models of `assay serve`: their names, shares and engines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.cli import sampling, serve_settings
from assay.cli.output import show_note, working
from assay.engine.loading.sources import SOURCES
from assay.errors import AssayError, InputError, UnsupportedError

if TYPE_CHECKING:
    from assay.engine import Encoder, Engine
    from assay.engine.core.device_sharing import DeviceSharing, ModelShare
    from assay.engine.loading import ModelFiles
    from assay.engine.server import LoadedEngine
    from assay.runtime import Device

_NAMED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)", re.DOTALL)
_PERCENT: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,6})?")


@dataclass(frozen=True)
class ModelRequest:
    """A model to serve: its name in the API, where it is, and its share of several."""

    name: str
    source: str
    share: ModelShare | None = None
    """None for a model that has the device for itself, and for an encoder beside others."""
    encodes: bool = False
    """Whether it is an encoder beside other models."""


@dataclass(frozen=True)
class Served:
    """The loaded models."""

    engines: Sequence[LoadedEngine]
    device: str
    synthetic: bool
    """Whether any of them has random weights."""
    sharing: DeviceSharing | None


def parse(
    models: Sequence[str],
    *,
    name: str | None = None,
    shares: Sequence[str] = (),
    guaranteed: Sequence[str] = (),
) -> list[ModelRequest]:
    """The models of the command's arguments.

    An option takes one value, so the shares that follow the first one of `--share a=70 b=30` come
    as arguments: a number is never a model.
    """
    given = [text for text in models if not _is_share(text)]
    percents = _percents([*shares, *(text for text in models if _is_share(text))])
    named = [_split(text) for text in given]
    if len(named) < 2:
        if percents or guaranteed:
            raise InputError(
                f"--{'share' if percents else 'guarantee'}: expected several models, got one",
                "name them: assay serve a=MODEL b=MODEL --share a=70 b=30",
            )
        if not given:
            raise InputError("MODEL: expected a model, got none")
        own, source = named[0]
        return [ModelRequest(name or own or _name_of(source), source)]
    if name is not None:
        raise InputError("--name: expected one model, got several", "name each: NAME=MODEL")
    for text, (own, _) in zip(given, named, strict=True):
        if own is None:
            raise InputError(
                f'MODEL: expected NAME=MODEL for each of several models, got "{text}"',
                "requests choose a model by its name",
            )
    names = [own for own, _ in named if own is not None]
    if repeated := sorted({own for own in names if names.count(own) > 1}):
        raise InputError(f'MODEL: expected different names, got "{repeated[0]}" twice')
    from assay.engine.core.device_sharing import shares_of

    encoders = {own for own, source in named if own is not None and _encodes(source)}
    if asked := sorted(encoders & {*percents, *guaranteed}):
        raise InputError(
            f"--{'share' if asked[0] in percents else 'guarantee'}: expected models that generate "
            f'text, got the encoder "{asked[0]}"',
            "an encoder computes between the steps of the others, and has no share",
        )
    generating = [own for own in names if own not in encoders]
    chosen: dict[str, ModelShare] = {}
    if len(generating) > 1:
        chosen = {share.name: share for share in shares_of(generating, percents, guaranteed)}
    elif percents or guaranteed:
        raise InputError(
            f"--{'share' if percents else 'guarantee'}: expected several models that generate "
            f"text, got {len(generating)}"
        )
    return [
        ModelRequest(own, source, chosen.get(own), own in encoders)
        for own, source in named
        if own is not None
    ]


def _name_of(source: str) -> str:
    """The name of a model that is given none: that of its repository, file or folder."""
    from assay.engine.loading import hub

    remote = None if Path(source).exists() or source in SOURCES else hub.parse(source)
    if isinstance(remote, hub.Repository):
        return remote.command
    return Path(source).name.removesuffix(".gguf")


def _encodes(source: str) -> bool:
    from assay.engine.loading import open_model
    from assay.engine.loading.encoder_files import is_encoder

    try:
        return is_encoder(open_model(source))
    except AssayError:
        # Loading it says what is wrong.
        return False


def load(
    models: Sequence[ModelRequest],
    *,
    device: str | None,
    kv_tokens: int | None,
    knobs: Sequence[str],
    adapters: Sequence[str] = (),
    chat_template: str | None = None,
    max_model_len: int | None = None,
    slo: str | None = None,
) -> Served:
    """Load the models, one after the other; several are admitted to the device together."""
    from assay.engine import Encoder, Engine
    from assay.engine.core.device_sharing import DeviceSharing, engine_settings
    from assay.engine.loading import open_model
    from assay.engine.loading.encoder_files import is_encoder
    from assay.engine.server import LoadedEngine, ModelFacts, bounded_context
    from assay.runtime import device as device_named

    level = serve_settings.service_level(slo)
    count = sum(not model.encodes for model in models)
    if level is not None and count > 1:
        raise InputError(f"--slo: expected one model, got {count}", "shares bound several")
    place = device_named(sampling.chosen_device(device))
    shares = [model.share for model in models if model.share is not None]
    sharing = DeviceSharing(place, shares) if shares else None
    settings = _knobs_by_model(knobs, models)
    folders = _adapters_by_model(adapters, [model.name for model in models])
    for share in shares:
        settings[share.name] = engine_settings(share, shares) | settings[share.name]
    engines: dict[str, Engine | Encoder] = {}
    lines: list[str] = []
    with ExitStack() as stack:
        # Encoders first: what they leave of the memory is for a KV cache.
        for request in sorted(models, key=lambda model: not model.encodes):
            shared = sharing if request.share is not None else None
            with (
                working(f"loading {request.source}"),
                nullcontext() if shared is None else shared.loading(request.name),
            ):
                chosen = settings[request.name]
                files = open_model(request.source)
                if chat_template is not None and not is_encoder(files):
                    files = sampling.with_template(files, chat_template)
                if shared is None and not is_encoder(files):
                    planned = serve_settings.choose(request.source, place, chosen, level)
                    chosen = {**planned.knobs, **chosen}
                    lines.append(planned.line)
                engine = _engine(request, files, place, kv_tokens, folders[request.name], chosen)
                if isinstance(engine, Engine):
                    if shared is None:
                        lines.append(serve_settings.prepare(engine, place, kv_tokens, level))
                    else:
                        engine.warm_up()
            stack.callback(engine.close)
            sampling.show_notes(engine)
            engines[request.name] = engine
        for line in filter(None, lines):
            show_note(line)
        if sharing is not None:
            sharing.admit()
        loaded = [
            LoadedEngine(
                request.name,
                engine,
                ModelFacts(engine.context_limit, engine.vocabulary)
                if isinstance(engine, Encoder)
                else ModelFacts(
                    bounded_context(engine.context_limit, max_model_len),
                    engine.model.shape.vocabulary,
                    engine.adapters,
                    engine.settings.policy == "priority",
                ),
                None if sharing is None or request.share is None else sharing.places[request.name],
            )
            for request in models
            for engine in (engines[request.name],)
        ]
        # What serves them closes them from here on.
        stack.pop_all()
    return Served(
        loaded, place.name, any(engine.files.synthetic for engine in engines.values()), sharing
    )


def _engine(
    request: ModelRequest,
    files: ModelFiles,
    device: Device,
    kv_tokens: int | None,
    adapters: dict[str, str],
    settings: dict[str, Any],
) -> Engine | Encoder:
    """The engine of one model, or the encoder."""
    from assay.engine import Encoder, Engine
    from assay.engine.loading.encoder_files import is_encoder

    if not is_encoder(files):
        with sampling.memory_hint():
            return Engine.load(files, device, kv_tokens=kv_tokens, adapters=adapters, **settings)
    if adapters:
        raise UnsupportedError(
            f'model "{request.name}": expected an encoder without adapters, got {len(adapters)}'
        )
    return Encoder.load(files, device, **settings)


def _is_share(text: str) -> bool:
    """Whether an argument is NAME=PERCENT, and no file is called so."""
    named = _NAMED.fullmatch(text)
    is_number = named is not None and _PERCENT.fullmatch(named[2]) is not None
    return is_number and not Path(text).exists()


def _split(text: str) -> tuple[str | None, str]:
    """The name and the source of NAME=MODEL; no name if it is the path of a file."""
    named = None if Path(text).exists() else _NAMED.fullmatch(text)
    return (None, text) if named is None else (named[1], named[2])


def _percents(given: Sequence[str]) -> dict[str, float]:
    percents: dict[str, float] = {}
    for text in (part for share in given for part in share.split(",")):
        named = _NAMED.fullmatch(text)
        if named is None or _PERCENT.fullmatch(named[2]) is None:
            raise InputError(f'--share: expected NAME=PERCENT, such as a=70, got "{text}"')
        if named[1] in percents:
            raise InputError(f'--share: expected one share of "{named[1]}", got two')
        percents[named[1]] = float(named[2])
    return percents


def with_threads(knobs: Sequence[str], threads: int | None) -> list[str]:
    """The knobs, and the threads that an option of its own gives."""
    return [*knobs, *([] if threads is None else [f"threads={threads}"])]


def _knobs_by_model(
    given: Sequence[str], models: Sequence[ModelRequest]
) -> dict[str, dict[str, Any]]:
    """The knobs of each model: those for all that it has, and those given as NAME.KNOB=VALUE."""
    from assay.engine.core.encoder import SETTINGS
    from assay.engine.loading.user_knobs import read_knobs

    common: list[str] = []
    own: dict[str, list[str]] = {model.name: [] for model in models}
    for text in given:
        name = text.partition("=")[0].rpartition(".")[0]
        if name in own:
            own[name].append(text[len(name) + 1 :])
        else:
            common.append(text)
    every = read_knobs(common)
    encoding = {name: value for name, value in every.items() if name in SETTINGS}
    return {
        model.name: (encoding if model.encodes else every) | read_knobs(own[model.name])
        for model in models
    }


def _adapters_by_model(given: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The adapters of each model, from NAME=FOLDER, or MODEL:NAME=FOLDER where there are several."""
    adapters: dict[str, dict[str, str]] = {name: {} for name in names}
    taken = set(names)
    form = "NAME=FOLDER" if len(names) == 1 else "MODEL:NAME=FOLDER"
    for text in given:
        model, colon, rest = text.partition(":")
        if len(names) == 1:
            model, colon, rest = names[0], ":", text
        named = _NAMED.fullmatch(rest)
        if not colon or model not in adapters or named is None:
            raise InputError(f'--lora: expected {form}, got "{text}"')
        if named[1] in taken:
            raise InputError(
                f'--lora: expected a name that no model or adapter has, got "{named[1]}"'
            )
        taken.add(named[1])
        adapters[model][named[1]] = named[2]
    return adapters
