"""Where a supervisor's process begins: it leaves its starter before it loads anything.

python -P -m vcjob.local.detached FOLDER     (the run's lock is inherited as descriptor 3)
"""

import os
import sys

if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # pipes of the shell that waits for their end, for example
    from vcjob.local.supervisor import main

    sys.exit(main(sys.argv[1]))
