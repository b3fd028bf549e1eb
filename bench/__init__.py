"""Benchmarks: speed claims as ratios measured in one run. `make bench` runs them, `make race` those against peers."""
