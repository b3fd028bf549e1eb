"""The rules, one module per family of causes. A rule is a generator: `Observation` in, findings out.

`RULES` in `vcjob.diagnosis.diagnose` lists them in the order in which equally likely findings are shown.
"""
