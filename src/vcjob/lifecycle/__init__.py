"""The life of a Job: `decide(job, status, observed, now) -> Decision(status, steps, wake_at, ready_tasks)`.

What a ground does, in this order, whenever something happened or `wake_at` has come:

1. Bring `Observed` up to date: `put` every pod it knows, its own creations and kills at once; `drop` what is
   gone for good. Never from a view older than its own last write.
2. `decide`.
3. Where the status is another object than the one given in: write it. If that fails, stop here and begin anew.
4. Do the steps in order. Each may be cut off; what is left undone is asked for again next time.

`status`    what is remembered; `wire` its form in Kubernetes
`pod`       what a ground says of one pod; `observed` the sums of that
`step`      what a ground is asked to do
"""
