"""The checks of a Job that need more than one field, one module for each part of a Job.

`admission.review` calls `check` of each; a check yields problems, never raises for a bad Job, and reads a Job
whose values have the types of the schema.
"""
