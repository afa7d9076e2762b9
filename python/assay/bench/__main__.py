"""`python -m assay.bench` is `assay bench`."""

import sys

from assay.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["bench"]
    main()
