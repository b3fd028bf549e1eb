"""What the output of a rank says, as text: prefixes, tracebacks, crashes, torchrun's table.

`Suspect`, the rules and the local pods read it. Nothing here knows of Jobs; any text is accepted.
"""
