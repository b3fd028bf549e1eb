"""Time to load and check a 300-line Job, compared with PyYAML's C loader alone.

Both are measured in turns in one process; the ratio is that of the medians. Exit code 1 if it exceeds the goal.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable

import yaml

from vcjob.admission.review import admit
from vcjob.spec import bundle

GOAL = 3.0
ROUNDS = 60
LINES = 300


def job_text(lines: int) -> str:
    """A Job of about `lines` lines with everything that real ones have."""
    head = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: train
  labels: {team: vision, "example.com/kind": training}
spec:
  minAvailable: 1
  schedulerName: volcano
  queue: default
  maxRetry: 3
  plugins:
    pytorch: ["--master=master", "--worker=worker", "--port=23456", "--wait-master-enabled=true"]
    svc: []
    env: []
  policies:
    - event: PodEvicted
      action: RestartJob
  tasks:
"""
    text = [head]
    count = head.count("\n")
    index = 0
    while count < lines:
        name = ("master", "worker")[index] if index < 2 else f"extra-{index}"
        block = TASK.replace("NAME", name).replace("REPLICAS", "1" if index == 0 else "4")
        text.append(block)
        count += block.count("\n")
        index += 1
    return "".join(text)


TASK = """\
    - name: NAME
      replicas: REPLICAS
      policies:
        - event: TaskCompleted
          action: CompleteJob
      template:
        metadata:
          labels:
            app: NAME
          annotations:
            note: "a task: with text"
        spec:
          restartPolicy: OnFailure
          terminationGracePeriodSeconds: 30
          nodeSelector:
            kubernetes.io/os: linux
          tolerations:
            - key: nvidia.com/gpu
              operator: Exists
              effect: NoSchedule
          containers:
            - name: NAME
              image: registry.example.com/team/train:1.0
              imagePullPolicy: IfNotPresent
              workingDir: /home
              command:
                - sh
                - -c
                - |
                  set -e
                  python train.py --epochs 10
              env:
                - name: LOG_LEVEL
                  value: info
                - name: NODE
                  valueFrom:
                    fieldRef:
                      fieldPath: spec.nodeName
              ports:
                - containerPort: 8080
                  name: metrics
                  protocol: TCP
              resources:
                requests:
                  cpu: "4"
                  memory: 8Gi
                limits:
                  memory: 8Gi
                  nvidia.com/gpu: 1
              volumeMounts:
                - name: data
                  mountPath: /data
                  readOnly: true
                - name: shm
                  mountPath: /dev/shm
          volumes:
            - name: data
              persistentVolumeClaim:
                claimName: data
            - name: shm
              emptyDir:
                medium: Memory
                sizeLimit: 1Gi
"""


def load_and_check(text: str) -> None:
    for document in bundle.load_text(text, "job.yaml").jobs:
        admission = admit(document)
        assert admission.valid, admission.problems
        assert document.position(("spec", "tasks", 1, "template", "spec", "containers", 0, "image"))


def median_of(rounds: int, *works: Callable[[], object]) -> list[float]:
    times: list[list[float]] = [[] for _ in works]
    gc.collect()
    for _ in range(rounds):
        for number, work in enumerate(works):
            start = time.perf_counter()
            work()
            times[number].append(time.perf_counter() - start)
    return [statistics.median(one) for one in times]


def main() -> int:
    text = job_text(LINES)
    load_and_check(text)
    ours, plain = median_of(
        ROUNDS, lambda: load_and_check(text), lambda: yaml.load(text, Loader=yaml.CSafeLoader)
    )
    ratio = ours / plain
    print(
        f"load and check {text.count(chr(10))} lines: {ours * 1e3:.2f} ms, CSafeLoader alone {plain * 1e3:.2f} ms, "
        f"ratio {ratio:.2f} (goal ≤ {GOAL})"
    )
    small, large = job_text(3_000), job_text(30_000)
    one, ten = median_of(3, lambda: load_and_check(small), lambda: load_and_check(large))
    growth = ten / one
    print(f"ten times the tasks: {one * 1e3:.0f} ms to {ten * 1e3:.0f} ms, {growth:.1f} times")
    return 0 if ratio <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
