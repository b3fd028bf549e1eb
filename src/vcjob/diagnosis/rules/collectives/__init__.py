"""What ranks wait for: their collectives, sends and receives, who waits for whom, and calls that do not fit together.

`hang` and `transfers` build their findings on it; `diagnose` and `failure` use `mismatch` directly. It reads the reports
of the ranks in an `Observation` and nothing else.
"""
