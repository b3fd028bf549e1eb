"""Admission of a Job: its defaults and all checks, those of its plugins included.

The CLI, the SDK, the webhook and the controller call `review.admit`; the controller also calls `limits.check_limits`, to
refuse a Job or an update that reached it without the webhook. Nothing is imported here: a supervisor on this machine
needs the limits and the defaults, and none of the checks.
"""
