"""Plain data with which both backends describe a job: pods, log lines, failures, progress, usage.

The backends fill it in, `Handle` returns it, and the command line and the page show it. It must not know where a job
runs: nothing here reads a file of a job or sends a request.
"""
