"""Failures that are produced for real on the local backend, each with the cause that must be ranked first."""
