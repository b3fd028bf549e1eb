"""The life of a Job: `decide(job, status, observed, now) -> Decision(status, steps, wake_at, ready_tasks)`.

Pure: no clock, no I/O, no state of its own. docs/semantics.md describes what it decides. A backend does this
whenever something happened or `wake_at` has come:

1. Update `Observed`: `put` every pod that it knows, its own creations and kills at once, and `drop` pods that no
   longer exist. Never from a view that is older than its own last write.
2. Call `decide`.
3. Write the status if it is another object than the one passed in. If that fails, stop and start again.
4. Execute the steps in order. Any of them may be interrupted; what was not done is requested again next time.

What goes in and comes out:

`status`        what is stored; `status_codec` is its form in Kubernetes
`pod`           what a backend reports about one pod; `observed` aggregates that
`step`          what a backend is to do; `decision` is the whole answer
`recover`       what a backend calls after a restart

A pass of `decide`, in this order, with a `decision_context` that holds the status as it changes:

`rules`         the spec with its defaults; `frozen_spec` detects updates that must not take effect
`user_requests` Commands, suspend and the deadline of the Job
`task_state`    the pods of a task, interpreted; `dependencies` says which tasks may start
`policy_events` the events that hold; `policies` and `policy_actions` say what follows, and `hang` for a hung Job
`actions`       what an action does in each phase
`phases`        changes of the phase that the pods cause; `culprits` names the pod that caused an end
`next_steps`    the steps that follow from the status and the pods

Compact data and text: `indexset`, `attempts`, `earliest_index`, `descriptions`.
"""
