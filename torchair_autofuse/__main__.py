"""python -m torchair_autofuse"""

from torchair_autofuse.cli import main

raise SystemExit(main())
