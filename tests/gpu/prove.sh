#!/bin/bash
# What vcjob does with a real NVIDIA GPU, shown on a machine that has one (or more).
#
#   tests/gpu/prove.sh              with the first of $PYTHON, .venv/bin/python, python3
#
# Needs no network. vcjob's own dependencies must be importable: in that interpreter, or in the folder $DEPS
# (default .gpu-deps; made elsewhere by `pip install --target .gpu-deps .`). Without torch the parts that need it
# are left out, and that is said. Prints what it saw; the last line is PROVED, or what was not.
set -u
cd "$(dirname "$0")/../.."
root=$PWD
if [ -z "${PYTHON:-}" ]; then
    [ -x .venv/bin/python ] && PYTHON=$root/.venv/bin/python || PYTHON=$(command -v python3)
fi
deps=${DEPS:-$root/.gpu-deps}
export PYTHONPATH=$root/src${PYTHONPATH:+:$PYTHONPATH}
[ -d "$deps" ] && export PYTHONPATH=$PYTHONPATH:$deps
work=$(mktemp -d)
export VCJOB_HOME=$work/home OMP_NUM_THREADS=1
trap 'vcjob warm stop >/dev/null 2>&1; rm -rf "$work"' EXIT
vcjob() { "$PYTHON" -m vcjob.cli.main "$@"; }

failed=()
step() { echo; echo "== $1"; }
expect() { # NAME PATTERN FILE: the pattern must be in the file
    if grep -qE "$2" "$3"; then echo "-- ok: $1"; else echo "-- NOT SEEN: $1 (looked for: $2)"; failed+=("$1"); fi
}

job() { # NAME REPLICAS GPUS COMMAND...: a Job file in $work
    local name=$1 replicas=$2 gpus=$3; shift 3
    local words; words=$(printf '"%s", ' "$@")
    cat > "$work/$name.yaml" <<JOB
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: $name}
spec:
  plugins: {pytorch: ["--master=rank", "--worker=rank"]}
  tasks:
  - name: rank
    replicas: $replicas
    template:
      spec:
        restartPolicy: Never
        containers:
        - {name: rank, image: none, command: [${words%, }], resources: {limits: {nvidia.com/gpu: $gpus}}}
JOB
}

run() { # NAME [OPTIONS]: run it, show and keep what it printed
    local name=$1; shift
    vcjob run "$@" "$work/$name.yaml" > "$work/$name.out" 2>&1
    echo "exit code $?" >> "$work/$name.out"
    cat "$work/$name.out"
}

step "The machine"
"$PYTHON" -V
if ! nvidia-smi -L > "$work/gpus" 2>&1 || ! grep -q '^GPU' "$work/gpus"; then
    echo "no NVIDIA GPU here: $(head -1 "$work/gpus")"
    exit 3
fi
cat "$work/gpus"
count=$(grep -c '^GPU' "$work/gpus")
first=$(sed -nE 's/.*UUID: ([^)]*)\).*/\1/p' "$work/gpus" | head -1)
torch=no
if "$PYTHON" -c 'import torch; print("torch", torch.__version__, "sees", torch.cuda.device_count(), "GPU(s)")'; then torch=yes; fi

step "A pod that asks for a GPU gets it by its UUID, one that asks for none sees none"
show='import os; print("sees", repr(os.environ.get("CUDA_VISIBLE_DEVICES")), flush=True)'
echo "$show" > "$work/show.py"
job one 1 1 "$PYTHON" "$work/show.py"; run one
expect "the GPU's UUID in the pod" "sees '$first'" "$work/one.out"
job none 1 0 "$PYTHON" "$work/show.py"; run none
expect "no GPU in a pod without one" "sees ''" "$work/none.out"

step "More GPUs than there are is refused at once"
job many 1 $((count + 1)) "$PYTHON" "$work/show.py"; run many
expect "a sentence with both numbers" "needs $((count + 1)) GPUs at once, and this machine has $count" "$work/many.out"
expect "exit code 3" "exit code 3" "$work/many.out"

step "Two jobs that want all GPUs: the second waits with the reason, then runs"
cat > "$work/hold.py" <<'PY'
import os, sys, time
print("start", time.time(), flush=True)
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]): time.sleep(0.05)
print("end", time.time(), flush=True)
PY
job holder 1 "$count" "$PYTHON" "$work/hold.py" "$work/go"
job waiter 1 "$count" "$PYTHON" "$work/hold.py"
vcjob run --detach "$work/holder.yaml"
until vcjob logs holder 2>/dev/null | grep -q start; do sleep 0.1; done
vcjob run --detach "$work/waiter.yaml"
sleep 2
vcjob status waiter > "$work/waiting.out" 2>&1; vcjob status waiter -o json >> "$work/waiting.out" 2>&1
head -20 "$work/waiting.out"
expect "the second is pending for want of GPUs" "GPU" "$work/waiting.out"
touch "$work/go"
vcjob wait holder --timeout 60 > /dev/null; vcjob wait waiter --timeout 60 > /dev/null
{ vcjob logs holder; vcjob logs waiter; } > "$work/both.out"; cat "$work/both.out"
"$PYTHON" - "$work/both.out" <<'PY' && echo "in turn" >> "$work/both.out"
import sys
times = [float(line.split()[-1]) for line in open(sys.argv[1])]
sys.exit(0 if len(times) == 4 and times[1] <= times[2] else 1)
PY
expect "one after the other" "in turn" "$work/both.out"

if [ $torch = yes ]; then
    allreduce=("$PYTHON" -m vcjob.local.programs.allreduce)
    step "All-reduce with nccl on one GPU, plain and warm"
    job nccl 1 1 "${allreduce[@]}"; run nccl
    expect "nccl, plain" "rank 0 of 1 \(nccl\): sum 1 in each" "$work/nccl.out"
    if grep -q "Warning" "$work/nccl.out"; then echo "-- NOT SEEN: no word from nccl"; failed+=("nccl warned"); fi
    cp "$work/nccl.yaml" "$work/nccl-warm.yaml"; sed -i 's/name: nccl/name: nccl-warm/' "$work/nccl-warm.yaml"
    run nccl-warm --warm
    expect "nccl, forked from a process that had imported torch" "rank 0 of 1 \(nccl\): sum 1 in each" "$work/nccl-warm.out"
    if grep -q "not started warm" "$work/nccl-warm.out"; then echo "-- NOT SEEN: the warm way"; failed+=("warm nccl was plain"); fi

    step "CUDA, memory and random numbers in ranks of a kept-warm server"
    cat > "$work/on_gpu.py" <<'PY'
import os, sys
preloaded = "torch" in sys.modules
import torch
a = torch.rand(512, 512, device="cuda")
print("preloaded", preloaded, "| CPU", torch.rand(1).item(), "| GPU", a[0, 0].item(), "| matmul", bool(torch.isfinite(a @ a).all()), flush=True)
PY
    vcjob warm start --python "$PYTHON"
    for turn in 1 2; do job "cuda$turn" 1 1 "$PYTHON" "$work/on_gpu.py"; run "cuda$turn"; done
    expect "CUDA works after the fork" "preloaded True .* matmul True" "$work/cuda1.out"
    if [ "$(grep -h preloaded "$work"/cuda[12].out | sort -u | wc -l)" = 2 ]; then echo "-- ok: each rank draws its own numbers"; else failed+=("equal random numbers"); fi
    vcjob warm stop

    step "Failures that need a GPU are named"
    cat > "$work/failing.py" <<'PY'
import datetime, os, sys, time
kind, rank = sys.argv[1], os.environ["RANK"]
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
if kind in ("hang", "mismatch"):  # nccl takes the ranks for two hosts, and so lets them share the GPU
    os.environ.update(NCCL_HOSTID=f"host{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1", TORCH_NCCL_DUMP_ON_TIMEOUT="0")
import torch
import torch.distributed as dist
torch.cuda.set_device(0)
if kind == "memory":
    kept = []
    while True:
        kept.append(torch.empty(8 << 30, dtype=torch.uint8, device="cuda"))
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=300 if kind == "hang" else 15))
dist.all_reduce(torch.ones(4, device="cuda"))
torch.cuda.synchronize()
if kind == "hang":
    time.sleep(300 * (rank == "1"))
    dist.all_reduce(torch.ones(4, device="cuda"))
elif rank == "0":
    dist.all_reduce(torch.ones(4, device="cuda"))
else:
    dist.broadcast(torch.ones(1 << 20, device="cuda"), src=1)
    dist.all_reduce(torch.ones(4, device="cuda"))
torch.cuda.synchronize()
PY
    failure() { # NAME REPLICAS GPUS CAUSE
        job "$1" "$2" "$3" "$PYTHON" "$work/failing.py" "$1"; run "$1" | tail -15
        vcjob why "$1" > "$work/$1.why" 2>&1; cat "$work/$1.why"
        expect "$4 is the first cause" "^$4: " <(head -1 "$work/$1.why")
    }
    failure memory 1 1 CudaOutOfMemory
    failure shared 2 0 GpuShared
    failure mismatch 2 0 CollectiveMismatch
    job hang 2 0 "$PYTHON" "$work/failing.py" hang; run hang --on-hang fail | tail -15
    expect "a hang with nccl ends with the rank that is behind" "rank 1 never reached all_reduce #2; rank 0 has waited" "$work/hang.out"

    step "Two ranks without GPUs on gloo, on the same machine"
    job gloo 2 0 "${allreduce[@]}"; run gloo --warm
    expect "gloo, two ranks" "rank 1 of 2 \(gloo\): sum 3 in each" "$work/gloo.out"
    step "Two ranks share the cores, plain and warm"
    echo 'import os, torch; print("threads", os.environ["OMP_NUM_THREADS"], torch.get_num_threads(), flush=True)' > "$work/threads.py"
    share=$(($("$PYTHON" -c 'import os; print(len(os.sched_getaffinity(0)))') / 2))
    [ "$share" -gt 0 ] || share=1
    for way in plain warm; do
        job "cores-$way" 2 0 "$PYTHON" "$work/threads.py"
        (unset OMP_NUM_THREADS; run "cores-$way" $([ $way = warm ] && echo --warm))
        expect "half of the cores for each, $way" "threads $share $share" "$work/cores-$way.out"
    done
    if grep -q "not started warm" "$work/cores-warm.out"; then failed+=("the warm ranks with a share were plain"); fi
    if [ "$count" -gt 1 ]; then
        step "All-reduce with nccl over all $count GPUs"
        job all "$count" 1 "${allreduce[@]}"; run all --warm
        expect "nccl over all GPUs" "rank 1 of $count \(nccl\): sum" "$work/all.out"
    fi
else
    echo; echo "== torch is not installed for $PYTHON: nccl and warm starts are left out"
fi

echo
if [ ${#failed[@]} -gt 0 ]; then printf 'NOT PROVED: %s\n' "${failed[@]}"; exit 1; fi
echo PROVED
