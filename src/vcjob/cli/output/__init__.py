"""What verbs print: tables, log lines, problems, errors, results, and the screen of a running job.

The verbs call it with what the SDK returned. It does not parse the command line. Text from outside is escaped here.
"""
