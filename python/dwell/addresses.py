"""Copies what fsspec addresses name to local files; ``dwell study`` calls this.

    python -m dwell.addresses 's3://bucket/*.gz'

Prints a JSON object: for each argument a list of addresses with the paths of their copies.
"""

from __future__ import annotations

import json
import sys

from ._errors import Error
from ._inputs import copies


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    try:
        print(json.dumps({address: copies(address) for address in given if address != "--"}))
        return 0
    except Error as error:
        print(f"dwell: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
