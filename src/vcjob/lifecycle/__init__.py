"""The life of a Job: `decide(job, status, observed, now) -> Decision(status, steps, wake_at, ready_tasks)`.

Pure: no clock, no I/O, no state of its own. docs/semantics.md describes what it decides. A backend does this
whenever something happened or `wake_at` has come:

1. Update `Observed`: `put` every pod that it knows, its own creations and kills at once, and `drop` pods that no
   longer exist. Never from a view that is older than its own last write.
2. Call `decide`.
3. Write the status if it is another object than the one passed in. If that fails, stop and start again.
4. Execute the steps in order. Any of them may be interrupted; what was not done is requested again next time.

`status`        what is stored; `status_codec` is its form in Kubernetes
`pod`           what a backend reports about one pod; `observed` aggregates that
`step`          what a backend is to do
`frozen_spec`   detects updates that must not take effect
`recover`       what a backend calls after a restart
"""
