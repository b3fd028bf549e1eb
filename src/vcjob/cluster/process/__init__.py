"""The process of `vcjob controller`.

- ``main``          starts everything and ends it on SIGTERM
- ``health``        HTTP servers for probes and metrics; ``metrics`` and ``histogram`` count
- ``json_logging``  log lines as JSON
"""
