"""Helps to write a Job: from a script, from other formats, with changes from the command line, with explanations."""
