"""Names that users script against: reasons, exit codes, environment variables, annotations.

Each name is defined once, with its meaning. Every other package imports the constants from here;
`scripts/generate_reference.py` turns the same definitions into the pages under docs/reference.
This package imports nothing of vcjob.
"""
