"""Contents of the offline bundle, and its checks."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

import bundle
import bundled_tests
import target_compiler
from bundle import (
    BundleError,
    check_size,
    check_tag,
    main,
    make_extra_parts,
    read_metadata,
    replace,
    split,
)
from host_packages import (
    Pin,
    extra_requirements,
    installation_steps,
    left_out,
    parse_pins,
    read_host_packages,
    requirement_name,
)

RESOLUTION = """\
multiprocess==0.70.19     # via salib
numpy==2.5.2              # via pandas, salib, assay (pyproject.toml)
SALib==1.6.0              # via assay (pyproject.toml)
typing-extensions==4.16.0  # via pydantic
"""


def test_pins_are_read_with_their_dependents() -> None:
    assert parse_pins(RESOLUTION) == [
        Pin("multiprocess", "0.70.19", "salib"),
        Pin("numpy", "2.5.2", "pandas, salib, assay"),
        Pin("salib", "1.6.0", "assay"),
        Pin("typing-extensions", "4.16.0", "pydantic"),
    ]


def test_host_list_skips_lines_without_version() -> None:
    listing = "NumPy==2.5.2\ntorch==2.11.0+cu130\nlocal @ file:///x\n-e git+https://x/y#egg=z\n"
    assert read_host_packages(listing) == {"numpy": "2.5.2", "torch": "2.11.0+cu130"}


@pytest.mark.parametrize(
    ("host", "names"),
    [
        (None, {"numpy"}),
        ({}, set()),
        ({"numpy": "2.5.2"}, {"numpy"}),
        ({"numpy": "1.20.0", "salib": "1.6.0", "torch": "2.11.0"}, {"salib"}),
    ],
)
def test_only_packages_on_the_host_are_excluded(
    host: dict[str, str] | None, names: set[str]
) -> None:
    assert left_out(parse_pins(RESOLUTION), host).keys() == names


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("numpy>=1.26", "numpy"),
        ('typing_extensions >=4 ; python_version < "3.13"', "typing-extensions"),
        ("uvicorn[standard]<1", "uvicorn"),
        ("multiprocess", "multiprocess"),
    ],
)
def test_requirement_name(requirement: str, name: str) -> None:
    assert requirement_name(requirement) == name


def test_packages_with_unused_dependencies_are_installed_without_them() -> None:
    stated = {
        "assay": ["numpy>=1.26", "salib>=1.5", "sympy>=1.12 ; extra == 'symbolic'"],
        "salib": ["matplotlib>=3.5", "multiprocess", "pathos ; extra == 'test'"],
        "multiprocess": ["dill>=0.4"],
    }
    assert installation_steps(stated) == (["multiprocess", "numpy>=1.26"], ["salib>=1.5"])
    del stated["salib"]
    assert installation_steps(stated) == (["numpy>=1.26"], ["salib>=1.5"])


@pytest.mark.parametrize(
    "name",
    [
        "assay-0.1.0-cp311-abi3-linux_x86_64.whl",
        "assay-0.1.0-cp311-abi3-manylinux_2_39_x86_64.whl",
        "assay-0.1.0-cp311-abi3-manylinux_2_34_aarch64.whl",
        "assay-0.1.0-cp311-cp311-manylinux_2_34_x86_64.whl",
    ],
)
def test_wheels_for_other_hosts_are_refused(name: str) -> None:
    check_tag("assay-0.1.0-cp311-abi3-manylinux_2_34_x86_64.whl")
    with pytest.raises(BundleError, match="got assay-0"):
        check_tag(name)


def test_size_limit_error_names_the_largest_files() -> None:
    entries = [{"name": "pandas", "size": 30_000_000}, {"name": "rich", "size": 300_000}]
    check_size(40_000_000, entries)
    with pytest.raises(BundleError, match=r"40.0 MB, .* 40 MB; largest: pandas 30.0 MB, rich"):
        check_size(40_000_001, entries)


def test_metadata_is_read_from_the_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "Some_Thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some/dist-info/METADATA", "Name: not this one\n")
        archive.writestr(
            "some_thing-1.0.dist-info/METADATA",
            "Metadata-Version: 2.4\nName: Some_Thing\nVersion: 1.0\nRequires-Dist: a>=1\n\ntext\n",
        )
    assert read_metadata(wheel) == ("some-thing", "1.0", ["a>=1"])


def test_wheels_are_packed_into_parts_below_the_limit() -> None:
    sizes = {Path(f"{size}-{n}.whl"): size for n, size in enumerate([60, 54, 30, 20, 10, 4, 1])}
    parts = split(sizes, 55)
    assert sorted(wheel for part in parts for wheel in part) == sorted(sizes)
    assert [sum(sizes[wheel] for wheel in part) for part in parts] == [60, 55, 54, 10]
    assert split({}, 55) == []


def test_an_extra_has_parts_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    sizes = {"polars": 3000, "pyarrow": 2900, "narwhals": 500, "pyyaml": 100, "statsmodels": 1000}

    def download(requirements: Iterable[str], python_version: str, folder: Path) -> None:
        for requirement in requirements:
            name, _, version = requirement.partition("==")
            with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
                text = f"Name: {name}\nVersion: {version}\n"
                archive.writestr(f"{name}-{version}.dist-info/METADATA", text)
                archive.writestr("content", b"x" * sizes[name])

    monkeypatch.setattr(bundle, "download", download)
    monkeypatch.setattr(bundle, "split", lambda sizes: split(sizes, 4000))
    pins = [Pin(name, "9.0", "assay") for name in sizes]
    parts = make_extra_parts(tmp_path, "loop", "3.12", pins)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(parts)
    assert [name.rpartition("-")[2] for name in parts] == ["1", "2", "3"][: len(parts)]
    named = {str(entry["name"]) for entries in parts.values() for entry in entries}
    assert named == set(sizes)
    listed = [(tmp_path / name / "requirements.txt").read_text().split() for name in parts]
    # What other packages require is resolved, not named.
    assert sorted(line for lines in listed for line in lines) == sorted(
        extra_requirements(root, "loop")
    )
    script = (root / "scripts" / "install.sh").read_text(encoding="utf-8")
    assert "assay-bundle-{nvrtc,numpy,telemetry,loop,loop-*,serve}" in script


def test_new_bundle_replaces_the_old(tmp_path: Path) -> None:
    destination = tmp_path / "dist" / "bundle"
    for text in ("first", "second"):
        work = tmp_path / text
        (work / "made").mkdir(parents=True)
        (work / "made" / "file").write_text(text)
        replace(work / "made", destination, work)
    assert [(path.name, path.read_text()) for path in destination.iterdir()] == [("file", "second")]


def test_a_missing_host_list_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--host-packages", "absent.txt"]) == 1
    assert "absent.txt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("has", "hint"),
    [
        (
            {"rustc": False, "library": False, "linker": False, "amd64": False},
            "dpkg --add-architecture amd64 && apt-get update && apt-get install "
            "rustc-web libstd-rust-web-dev:amd64 gcc-x86-64-linux-gnu",
        ),
        (
            {"rustc": True, "library": False, "linker": True, "amd64": True},
            "apt-get install libstd-rust-web-dev:amd64",
        ),
        (
            {"rustc": False, "library": True, "linker": False, "amd64": False},
            "apt-get install gcc-x86-64-linux-gnu",
        ),
    ],
)
def test_hint_names_exactly_what_is_missing(has: dict[str, bool], hint: str) -> None:
    assert target_compiler.install_hint(**has) == f"on Debian 12, as root: {hint}"


def test_other_architecture_cross_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(target_compiler, "has_standard_library", lambda rustc: rustc != "rustc")
    compiler = target_compiler.target_compiler()
    assert compiler.arguments == ("--target", "x86_64-unknown-linux-gnu")
    assert compiler.environment == {
        "RUSTC": "/usr/bin/rustc",
        "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER": "/usr/bin/x86_64-linux-gnu-gcc",
    }
    monkeypatch.setattr(target_compiler, "has_standard_library", lambda rustc: False)
    with pytest.raises(target_compiler.MissingCompiler, match=r"aarch64 .* no x86_64-unknown"):
        target_compiler.target_compiler()


@pytest.mark.slow
def test_gpu_tests_run_from_the_bundle(tmp_path: Path, root: Path) -> None:
    """Without a GPU each test is skipped, with the reason."""
    bundled_tests.add_tests(root, tmp_path)
    suite = tmp_path / "gpu-tests" / bundled_tests.CONTRACT_SUITE
    suite.write_text("#!/bin/sh\necho suite $ASSAY_CUDA_LIBRARIES\n", encoding="utf-8")
    suite.chmod(0o755)
    chosen = "packed_weights or test_profile_times or test_each_operator_is_one or test_gravity"
    done = subprocess.run(
        [tmp_path / "run_gpu_tests.sh", "-k", chosen],
        env={**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines[0].startswith("suite ")
    assert "nvrtc" in lines[0] or "nvidia" in lines[0]
    for name in ("gpu/test_packed_weights", "engine/core/test_engine", "runtime/test_records"):
        assert any(line.startswith("SKIPPED") and name in line for line in lines), (name, lines)


def test_bundled_engine_tests_are_those_with_a_chosen_device(root: Path) -> None:
    names = {Path(name).stem for name in bundled_tests.engine_tests(root)}
    assert names >= {"test_determinism", "test_engine", "test_models", "test_smollm2"}
    assert not names & {"test_command_line", "test_sampling_params", "test_worker"}


def test_cargo_executable_is_found() -> None:
    messages = '{"reason":"x","executable":null}\nnoise\n{"executable":"/made/device-1"}\n'
    assert bundled_tests._executable(messages) == "/made/device-1"


def test_gpu_host_runs_every_suite_and_names_failures(tmp_path: Path, root: Path) -> None:
    bundled_tests.add_tests(root, tmp_path)
    (tmp_path / "commit").write_text("abc\n", encoding="utf-8")
    programs = tmp_path / "programs"
    programs.mkdir()
    said = tmp_path / "said"
    for name, body in {
        "python": f'[ "$1" = -c ] && echo h200 || echo "$ASSAY_COMMIT $@" >> {said}; [ "$4" != gemm ]',
        "compute-sanitizer": "exit 1",
    }.items():
        program = programs / name
        program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        program.chmod(0o755)

    def measured(**chosen: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [tmp_path / "measure_gpu.sh", "kept"],
            env={"PATH": f"{programs}:{os.environ['PATH']}", "PYTHON": "python", **chosen},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    def suites() -> list[str]:
        lines = said.read_text(encoding="utf-8").splitlines()
        return [line.split()[4] for line in lines if line.startswith("abc -m assay bench ")]

    assert measured(SUITES="protein perception").returncode == 0
    assert suites() == ["protein", "perception"]
    assert "sanitize" not in said.read_text(encoding="utf-8")
    said.unlink()
    done = measured()
    assert (done.returncode, done.stderr) == (1, "error: failed: gemm\n")
    lines = said.read_text(encoding="utf-8").splitlines()
    assert suites() == [
        *("decode", "ops", "gemv", "attention", "scheduler", "gemm", "ceilings"),
        *("protein", "perception"),
    ]
    assert lines[0].endswith("decode --device cuda:0 --save kept/decode-h200.json")
    assert [line.split("--save ")[1] for line in lines[-2:]] == [
        "kept/memcheck-h200.json",
        "kept/racecheck-h200.json",
    ]


def tuned(folder: Path, *lines: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run tune_vllm.sh with a `python` that writes down what it is asked, and does these lines."""
    programs, scratch = folder / "programs", folder / "scratch"
    programs.mkdir(exist_ok=True)
    python = f"""#!/bin/sh
case "$*" in
  *paths.scratch*) echo {scratch} ;;
  *) echo "$@" >> {folder / "said"} ;;
esac
{chr(10).join(lines)}
"""
    for name, body in {"python": python, "vllm": "#!/bin/sh\n"}.items():
        (programs / name).write_text(body, encoding="utf-8")
        (programs / name).chmod(0o755)
    return subprocess.run(
        [bundle.ROOT / "scripts" / "tune_vllm.sh", folder / "kept"],
        env={"PATH": f"{programs}:{os.environ['PATH']}", "PYTHON": "python", **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def runs_of(folder: Path) -> list[str]:
    """The runs that were asked for."""
    said = (folder / "said").read_text("utf-8").splitlines()
    return [line for line in said if line.startswith("-m assay run")]


def test_vllm_is_tuned_for_each_workload_and_every_run_is_kept(tmp_path: Path) -> None:
    runs = tmp_path / "scratch" / "runs"
    done = tuned(
        tmp_path,
        f'case "$*" in *"--workload chat"*) mkdir -p {runs}/20260101-vllm-chat-1 ;; esac',
        'case "$*" in *"--workload rag"*) exit 3 ;; esac',
        RUNS="chat rag",
    )
    assert (done.returncode, done.stderr) == (1, "error: failed: rag\n")
    start = f"--engine vllm --model {tmp_path}/scratch/checkpoints/llama-3-8b-plain"
    start += " --top-n 5 --skip ngram-speculation"
    slo = "--slo ttft=500ms,tpot=15ms"
    assert runs_of(tmp_path) == [
        f"-m assay run --budget 8m {start} --workload chat {slo} --concurrency 64",
        f"-m assay run --budget 8m {start} --workload rag --concurrency 32",
    ]
    kept = sorted(path.name for path in (tmp_path / "kept").iterdir())
    # The run of rag ended before it had a folder.
    assert kept == ["chat.log", "chat.tar.gz", "chat.txt", "rag.log", "rag.txt"]


def test_runs_that_were_cut_off_go_on(tmp_path: Path) -> None:
    for name in ("20260101-vllm-rag-1", "20260102-vllm-rag-2", "20260103-vllm-batch-3"):
        (tmp_path / "scratch" / "runs" / name).mkdir(parents=True)
    done = tuned(tmp_path, RUNS="rag chat", RESUME="1", BUDGET="4m", TOP="8")
    assert (done.returncode, done.stderr) == (0, "")
    assert runs_of(tmp_path)[0] == "-m assay run --budget 4m --resume 20260102-vllm-rag-2"
    assert "--top-n 8" in runs_of(tmp_path)[1]


def test_a_run_that_takes_too_long_is_asked_for_its_report(tmp_path: Path) -> None:
    done = tuned(
        tmp_path,
        'case "$*" in *"--workload rag"*) trap "echo reported; exit 0" INT; sleep 60 & wait ;; esac',
        RUNS="rag",
        LIMIT="1",
    )
    assert (tmp_path / "kept" / "rag.txt").read_text() == "reported\n"
    assert (done.returncode, done.stderr) == (1, "error: failed: rag\n")
