"""Options and arguments that verbs share: their definitions, their values, and what a shell offers for them.

A value that cannot be used is a `UserError` that says what to type instead. Nothing here prints.
"""
