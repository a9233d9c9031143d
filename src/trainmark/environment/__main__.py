"""Probing of an environment on this host: ``python -m trainmark.environment NAME FRAMEWORK HOME`` prints the answer."""

import json
import sys
from pathlib import Path

from trainmark.environment.checking import verify_environment
from trainmark.environment.resolving import MARK, ProbedEnvironment, UnusableEnvironment, is_known, resolve


def main(name: str, framework: str, home: str) -> None:
    """Print the probed environment, or the reason why it cannot be used, as one line of JSON."""
    answer: object
    try:
        environment = resolve(name, home=Path(home))
        versions = verify_environment(environment, framework) if is_known(framework) else None
        probed = ProbedEnvironment(versions=versions, lock_digest=environment.lock_digest)
        answer = probed.model_dump(mode="json")
    except UnusableEnvironment as error:
        answer = str(error)
    sys.stdout.write(f"\n{MARK}{json.dumps(answer)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
