"""`python -m vcjob`: the command line.

It is the same as the command `vcjob`, for an interpreter whose scripts are not on PATH. All of it is in `cli.main`.
"""

import sys

from vcjob.cli.main import main

sys.exit(main())
