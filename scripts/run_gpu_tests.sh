#!/usr/bin/env bash
# Runs the GPU tests of this bundle with the Assay that install.sh put into $PYTHON (default: python3).
#
# pytest comes from the bundle where the host has none. Arguments go to pytest: -k linear, -x ...
# Tests whose references need PyTorch are skipped, with that reason, on hosts without it.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python="$(command -v "${PYTHON:-python3}")" || {
  echo "error: no Python: \"${PYTHON:-python3}\" is not on PATH" >&2
  echo "hint: PYTHON=/path/to/python $0" >&2
  exit 1
}

if ! "$python" -c "import pytest" 2>/dev/null; then
  if command -v uv >/dev/null; then
    uv pip install --python "$python" --offline --no-index --find-links "$here/wheels" pytest >&2
  else
    "$python" -m pip install --no-index --find-links "$here/wheels" pytest >&2
  fi
fi

cd "$here/gpu-tests"
export PYTHONPATH="$PWD/scripts${PYTHONPATH:+:$PYTHONPATH}" ASSAY_KERNELS="$PWD/kernels"
exec "$python" -m pytest -c /dev/null --rootdir "$PWD" -o markers="gpu: needs a GPU" -rs -q \
  -p no:cacheprovider --import-mode=importlib "$@" tests
