"""Helps to write a Job: from a script, from other formats, with changes from the command line, with explanations.

The functions of the SDK and the verbs run, render, init, convert and explain use these modules. They return documents
and text; none of them starts a Job or contacts a cluster. Mistakes of the user are UserErrors with a hint.
"""
