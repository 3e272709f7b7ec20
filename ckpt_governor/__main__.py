"""``python -m ckpt_governor`` is ``ckpt-governor``."""

import sys

from ckpt_governor.cli.governor import main

if __name__ == "__main__":
    sys.exit(main())
