#!/usr/bin/env bash
# Runs the GPU tests of this bundle with the Assay that install.sh installed into $PYTHON (default: python3):
# the contract suite of backends, then the Python tests, those of arrays and of the engine on
# $ASSAY_TEST_DEVICE (default: cuda:0).
#
# pytest is installed from the bundle if the host lacks it. Arguments go to pytest: -k linear, -x ...
# The tests run in $WORKERS processes (default: 8); those that measure time or the memory in use run alone, at the end. Where a host is
# lent for minutes, $TESTS chooses a part: a path such as tests/gpu, or "alone".
# Tests whose references need PyTorch are skipped, with that reason, on hosts without it.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python="$(command -v "${PYTHON:-python3}")" || {
  echo "error: no Python: \"${PYTHON:-python3}\" is not on PATH" >&2
  echo "hint: PYTHON=/path/to/python $0" >&2
  exit 1
}

if ! "$python" -c "import pytest, hypothesis, xdist" 2>/dev/null; then
  if command -v uv >/dev/null; then
    uv pip install --python "$python" --offline --no-index --find-links "$here/wheels" \
      pytest hypothesis pytest-xdist >&2
  else
    "$python" -m pip install --no-index --find-links "$here/wheels" \
      pytest hypothesis pytest-xdist >&2
  fi
fi

cd "$here/gpu-tests"
failed=0
libraries="$("$python" -c "from assay.runtime import cuda; print(':'.join(cuda.library_folders()))")"
ASSAY_CUDA_LIBRARIES="$libraries" ./contract-suite --test-threads=1 || failed=1

export PYTHONPATH="$PWD/scripts:$PWD/tests:$PWD/tests/engine:$PWD/tests/speech${PYTHONPATH:+:$PYTHONPATH}"
export ASSAY_KERNELS="$PWD/kernels" ASSAY_TEST_DEVICE="${ASSAY_TEST_DEVICE:-cuda:0}"
run() {
  local status=0
  # A test that hangs ends its process, prints where it stood, and counts as failed.
  "$python" -m pytest -c /dev/null --rootdir "$PWD" -o markers="gpu: needs a GPU" -rfEs -q \
    -o faulthandler_timeout=150 -o faulthandler_exit_on_timeout=true \
    -p no:cacheprovider --import-mode=importlib "$@" || status=$?
  # 5: no test was selected.
  [[ $status == 0 || $status == 5 ]]
}
alone=(tests/gpu/test_{delays,cuda_{scheduling,guarantees,known_failures,scratch,sharing}}.py)
if [[ "${TESTS:-}" != alone ]]; then
  run -n "${WORKERS:-8}" "${alone[@]/#/--ignore=}" "$@" "${TESTS:-tests}" || failed=1
fi
if [[ -z "${TESTS:-}" || "$TESTS" == alone ]]; then
  run "$@" "${alone[@]}" || failed=1
fi
exit "$failed"
