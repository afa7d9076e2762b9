#!/usr/bin/env bash
# Tunes vLLM from its defaults with the Assay that install.sh installed into $PYTHON (default: python3): three
# runs of `assay run`, of $BUDGET each (default: 8m), on a checkpoint of Llama-3-8B's shape, 16 GB in
# $ASSAY_SCRATCH. What each run printed, and its folder as an archive, go to the folder $1 (default: runs).
#
# $RUNS chooses some of "batch chat rag". A run that finds nothing to gain is no failure. RESUME=1 goes on with
# the latest run of each, whatever ended it. $LIMIT (default: 600) is after how many seconds a run is asked to
# write its report, as by ctrl-c. $TOP (default: 5) candidates are tried.
#
# The weights are random, and answers are letters that follow from each other: they repeat themselves after 95, so that
# drafts from n-grams are left out.
set -euo pipefail

python="$(command -v "${PYTHON:-python3}")" || {
  echo "error: no Python: \"${PYTHON:-python3}\" is not on PATH" >&2
  echo "hint: PYTHON=/path/to/python $0" >&2
  exit 1
}
PATH="$(dirname "$python"):$PATH"
command -v vllm > /dev/null || {
  echo "error: no vLLM: \"vllm\" is neither beside $python nor on PATH" >&2
  echo "hint: install it into the environment of $python" >&2
  exit 1
}
results="${1:-runs}"
mkdir -p "$results"
# Bytecode is kept, whatever the environment says: each server would compile vLLM again.
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=
# FlashInfer is compiled where it is used first; vLLM samples without it.
export VLLM_USE_FLASHINFER_SAMPLER="${VLLM_USE_FLASHINFER_SAMPLER:-0}"
scratch="$("$python" -c 'from assay import paths; print(paths.scratch())')"
model="$scratch/checkpoints/llama-3-8b-plain"
"$python" -c 'import pathlib, sys; from assay.engine.loading.dummy_checkpoint import write_checkpoint
write_checkpoint(pathlib.Path(sys.argv[1]), "llama-3-8b-shape", plain=True)' "$model"

declare -A options=(
  [batch]="--workload batch --input-tokens 1024 --output-tokens 128 --concurrency 64"
  [chat]="--workload chat --slo ttft=500ms,tpot=15ms --concurrency 64"
  [rag]="--workload rag --concurrency 32"
)
latest() { # the newest run of a workload, or nothing
  [[ -d "$scratch/runs" ]] || return 0
  find "$scratch/runs" -mindepth 1 -maxdepth 1 -type d -name "*-vllm-$1-*" -printf '%f\n' | sort | tail -n 1
}
failed=()
for name in ${RUNS:-batch chat rag}; do
  read -ra words <<< "${options[$name]:?a run is batch, chat or rag}"
  before="$(latest "$name")"
  resumed=""
  if [[ -n "${RESUME:-}" && -n "$before" ]]; then
    resumed="$before"
    words=(--resume "$before")
  else
    words=(--engine vllm --model "$model" --top-n "${TOP:-5}" --skip ngram-speculation "${words[@]}")
  fi
  timeout --foreground --signal=INT --kill-after=60 "${LIMIT:-600}" \
    "$python" -m assay run --budget "${BUDGET:-8m}" "${words[@]}" \
    >> "$results/$name.txt" 2>> "$results/$name.log" || failed+=("$name")
  run="${resumed:-$(latest "$name")}"
  # One that ended before it had a folder leaves the latest as it was: another run.
  [[ -z "$run" || ("$run" == "$before" && -z "$resumed") ]] || tar -czf "$results/$name.tar.gz" -C "$scratch/runs" "$run"
done
((${#failed[@]} == 0)) || {
  echo "error: failed: ${failed[*]}" >&2
  exit 1
}
