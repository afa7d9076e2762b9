#!/usr/bin/env bash
# Measures a GPU host with the Assay that install.sh installed into $PYTHON (default: python3): every suite
# of `assay bench` that runs on GPUs and needs no model, then all kernels under compute-sanitizer if that is
# installed. Results are written as JSON to the folder $1 (default: results), in the format of bench/results.
#
# Where a host is lent for minutes, $SUITES chooses some of them: "protein perception", say, or sanitizer.
#
# Run it alone on the machine: background load disturbs the measurement.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python="$(command -v "${PYTHON:-python3}")" || {
  echo "error: no Python: \"${PYTHON:-python3}\" is not on PATH" >&2
  echo "hint: PYTHON=/path/to/python $0" >&2
  exit 1
}
device="${ASSAY_TEST_DEVICE:-cuda:0}"
# "NVIDIA H200" is h200.
name="$("$python" -c "import sys; from assay.runtime import Device
words = Device(sys.argv[1]).description.lower().split()
print('-'.join(word for word in words if word != 'nvidia'))" "$device")"
results="${1:-results}"
mkdir -p "$results"
export ASSAY_COMMIT="${ASSAY_COMMIT:-$(<"$here/commit")}"

failed=()
sanitize() { # all kernels under compute-sanitizer, where that is installed
  command -v compute-sanitizer >/dev/null || {
    echo "compute-sanitizer is not on PATH: kernels were not run under it" >&2
    return
  }
  for tool in memcheck racecheck; do
    "$python" "$here/gpu-tests/scripts/sanitize_kernels.py" --tests "$here/gpu-tests/tests/gpu" \
      --kernels "$here/gpu-tests/kernels" --tools "$tool" --commit "$ASSAY_COMMIT" --seconds 570 \
      --save "$results/$tool-$name.json" || failed+=("$tool")
  done
}
read -ra suites <<< "${SUITES:-decode ops gemv attention scheduler gemm ceilings protein perception sanitizer}"
for suite in "${suites[@]}"; do
  if [[ "$suite" == sanitizer ]]; then
    sanitize
  else
    "$python" -m assay bench "$suite" --device "$device" --save "$results/$suite-$name.json" ||
      failed+=("$suite")
  fi
done
((${#failed[@]} == 0)) || {
  echo "error: failed: ${failed[*]}" >&2
  exit 1
}
