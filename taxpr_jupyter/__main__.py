"""`python -m taxpr_jupyter`: the command `taxpr`."""

import sys

from taxpr_jupyter._cli.main import main

sys.exit(main())
