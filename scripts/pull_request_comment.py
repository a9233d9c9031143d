"""Write a file as a comment of a pull request, or over the comment that this script wrote before.

TOKEN=… GITHUB_REPOSITORY=owner/name python scripts/pull_request_comment.py NUMBER FILE.md
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

MARK = "<!-- trainmark -->"
MOST_CHARACTERS = 65_000
"""GitHub refuses a comment of more than 65 536."""
_PER_PAGE = 100


def call(method: str, path: str, body: dict[str, str] | None = None) -> Any:
    """Return GitHub's answer to a request."""
    api = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    request = urllib.request.Request(
        f"{api}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {os.environ['TOKEN']}", "Accept": "application/vnd.github+json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def earlier(number: str) -> int | None:
    """Return the id of this script's comment of the pull request."""
    page = 1
    while True:
        found = call("GET", f"issues/{number}/comments?per_page={_PER_PAGE}&page={page}")
        own = next((one["id"] for one in found if one["body"].startswith(MARK)), None)
        if own is not None or len(found) < _PER_PAGE:
            return own
        page += 1


def main() -> int:
    """Write the comment; return 1 if GitHub refuses it."""
    number, file = sys.argv[1:]
    text = Path(file).read_text(encoding="utf-8")
    if len(text) > MOST_CHARACTERS:
        text = text[:MOST_CHARACTERS].rsplit("\n", 1)[0] + "\n\nThe rest is in the job summary.\n"
    body = {"body": f"{MARK}\n{text}"}
    try:
        own = earlier(number)
        if own is None:
            call("POST", f"issues/{number}/comments", body)
        else:
            call("PATCH", f"issues/comments/{own}", body)
    except urllib.error.URLError as error:
        print(f"::error title=trainmark::the comment cannot be written: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
