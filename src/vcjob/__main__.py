"""`python -m vcjob`: the command line."""

import sys

from vcjob.cli.main import main

sys.exit(main())
