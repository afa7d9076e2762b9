#!/usr/bin/env bash
# Installs Assay from this folder, without network, into $PYTHON (default: python3).
#
# Packages that the host already has in a compatible version are not replaced.
# Put the folder assay-bundle-nvrtc next to this one to install the CUDA compiler library too,
# assay-bundle-numpy if the host has no NumPy or SciPy, assay-bundle-telemetry for samples of GPUs and
# host, all of assay-bundle-loop-* for tables of traces, and assay-bundle-serve for `assay serve`.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python="$(command -v "${PYTHON:-python3}")" || {
  echo "error: no Python: \"${PYTHON:-python3}\" is not on PATH" >&2
  echo "hint: PYTHON=/path/to/python $0" >&2
  exit 1
}

required="$(<"$here/python-version")"
found="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
if [[ "$found" != "$required" ]]; then
  echo "error: this bundle is for Python $required, $python is $found" >&2
  echo "hint: PYTHON=/path/to/python$required $0" >&2
  exit 1
fi

links=(--find-links "$here/wheels")
requirements=(-r "$here/requirements.txt")
for part in "$here"/../assay-bundle-{nvrtc,numpy,telemetry,loop,loop-*,serve}; do
  [[ -d "$part" ]] || continue
  links+=(--find-links "$part/wheels")
  [[ ! -f "$part/requirements.txt" ]] || requirements+=(-r "$part/requirements.txt")
done

install() {
  # Progress goes to standard error: standard output has only the build info.
  if command -v uv >/dev/null; then
    uv pip install --python "$python" --offline --no-index "${links[@]}" "$@" >&2
  else
    "$python" -m pip install --no-index "${links[@]}" "$@" >&2
  fi
}

install "${requirements[@]}"
# These require packages that Assay never uses; their other requirements are in requirements.txt.
install --no-deps -r "$here/alone.txt"
# A rebuilt wheel has the same version as the one it replaces.
install --no-deps --force-reinstall "$here"/wheels/assay-*.whl

cd /
"$python" - <<'CHECK'
import assay, assay.cli
print("assay", " ".join(f"{name}={value}" for name, value in assay.build_info().items()))
CHECK
