"""Failures that are produced for real on a cluster, each with the cause that must be ranked first."""
