"""``trainmark parse``: read training logs and print the throughput of each, or the reason why it has none."""

import sys
from typing import TYPE_CHECKING, Annotated

from trainmark.cli.arguments import Argument, Command, Option
from trainmark.cli.log_exchange import Exchange, exchange_logs, exchange_tree
from trainmark.cli.log_output import follow_one, import_numpy, print_logs
from trainmark.cli.tree_output import print_tree

if TYPE_CHECKING:
    from trainmark.logs import Facts
    from trainmark.measure.rules import Rule

Paths = Annotated[
    list[str] | None,
    Argument(
        metavar="PATH",
        help="Log files (also compressed), folders or archives (tar, zip) of logs, or - for standard input.",
    ),
]
RuleName = Annotated[
    str | None, Option(help="The rule that computes the throughput from a log (see --list-rules).")
]
Skip = Annotated[
    int | None,
    Option(
        min=0, help="The number of records to skip at the start (for the rules window, mean, trimmed, …)."
    ),
]
Gpus = Annotated[
    int | None,
    Option(min=1, help="The number of devices over all nodes, if the log does not state it."),
]
Nodes = Annotated[int | None, Option(min=1, help="The number of nodes, if the log does not state it.")]
Batch = Annotated[int | None, Option(min=1, help="The batch size per device, if the log does not state it.")]
PrecisionName = Annotated[
    str | None,
    Option(
        help="The precision, if the log does not state it: fp32, tf32, amp-fp16, amp-bf16, fp16, bf16 or fp8."
    ),
]
Model = Annotated[
    str | None,
    Option(help="The model's name, if the log does not state it; with --to, it overrides the log's."),
]
Tree = Annotated[
    str | None,
    Option(
        metavar="DIR",
        help="Read a folder tree of logs: named as DLPerf does (<n>n<g>g/r50_b128_fp32_1.log), or by --layout.",
    ),
]
Layout = Annotated[
    str | None,
    Option(
        metavar="PATTERN",
        help="The pattern of the paths in --tree, e.g. {nodes}n{gpus}g/{model}_b{batch}_{precision}_{repeat}.log; "
        "{devices}, {variant} and {any} are also allowed.",
    ),
]
Followed = Annotated[
    str | None,
    Option(
        metavar="FILE",
        help="Watch the log of a run in progress and print its throughput so far, until its end or Ctrl-C.",
    ),
]
To = Annotated[
    Exchange | None,
    Option(
        flags=("--to",),
        help="Print rows for another project's database, or DLPerf's result file (docs/reference/exchange.md).",
    ),
]
Mission = Annotated[
    str | None,
    Option(help="For paddle-json: the mission, if it cannot be derived from the model's name."),
]
FormatName = Annotated[
    str | None,
    Option(
        flags=("--format",),
        metavar="NAME|FILE.yaml",
        help="Read the logs as this format: a name of --list-formats, or a file that describes one "
        "(docs/how-to/describe-a-log.md).",
    ),
]
Explain = Annotated[
    bool,
    Option(
        help="Print the matching lines, the facts, the throughput by every method, and a proposed format.",
    ),
]
Ranks = Annotated[
    bool,
    Option(
        help="Compare the ranks of one job, from a log with rank tags or a log of each rank, and name slow ones.",
    ),
]
Jobs = Annotated[
    int,
    Option(
        flags=("-j", "--jobs"),
        min=1,
        help="The number of processes that read logs, 1 by default; the output is the same.",
    ),
]
ListRules = Annotated[bool, Option(help="List the rules, and the publishers that use each.")]
ListFormats = Annotated[bool, Option(help="List the known log formats.")]
AsJson = Annotated[bool, Option(flags=("--json",), help="Print one JSON object per log, one per line.")]


def parse(
    paths: Paths = None,
    rule: RuleName = None,
    skip: Skip = None,
    gpus: Gpus = None,
    nodes: Nodes = None,
    batch: Batch = None,
    precision: PrecisionName = None,
    model: Model = None,
    tree: Tree = None,
    layout: Layout = None,
    follow: Followed = None,
    to: To = None,
    mission: Mission = None,
    format_name: FormatName = None,
    explain: Explain = False,
    ranks: Ranks = False,
    jobs: Jobs = 1,
    list_rules: ListRules = False,
    list_formats: ListFormats = False,
    as_json: AsJson = False,
) -> int:
    """Read training logs and print their format, devices, precision, batch size, throughput and problems.

    Exit code 1: a log gives no throughput, or a problem makes it doubtful; with --ranks, a rank is slower.
    """
    from trainmark.errors import InputError

    if list_rules or list_formats:
        from trainmark.cli import log_catalogue

        known = log_catalogue.list_rules if list_rules else log_catalogue.list_formats
        sys.stdout.write(known(as_json=as_json))
        return 0
    _refuse(
        (to is not None and as_json, f"--to {to} prints JSON already; leave out --json"),
        (to is not Exchange.PADDLE_JSON and mission is not None, "--mission is for --to paddle-json"),
        (
            format_name is not None and (follow is not None or tree is not None or to is not None),
            "--format is for paths: it cannot be combined with --follow, --tree or --to",
        ),
        (
            ranks
            and (follow is not None or tree is not None or to is not None or explain or rule is not None),
            "--ranks compares the records of paths: leave out --follow, --tree, --to, --explain and --rule",
        ),
        (
            layout is not None and tree is None,
            "--layout describes the paths in a tree: add --tree DIR",
        ),
    )
    import_numpy()
    chosen = rule_of(rule, skip)
    if follow is not None:
        if paths or tree is not None or to is not None:
            raise InputError("--follow watches one log: it cannot be combined with paths, --tree or --to")
        given = given_facts(gpus, nodes, batch, precision, model)
        return follow_one(follow, chosen, given, as_json=as_json)
    if tree is not None:
        if paths:
            raise InputError("give either --tree DIR or paths, not both")
        _refuse_facts_of_logs(gpus, nodes, batch, precision, model if to is None else None)
        if to is not None:
            return exchange_tree(tree, chosen, layout, to, model, mission)
        return print_tree(tree, chosen, layout, as_json=as_json)
    if not paths:
        raise InputError("no log given: name files, folders, or - for standard input (see --help)")
    given = given_facts(gpus, nodes, batch, precision, model)
    if to is not None:
        return exchange_logs(paths, chosen, given, to, mission)
    if ranks:
        from trainmark.cli.log_ranks import print_ranks

        return print_ranks(paths, chosen, given, format_name, as_json=as_json)
    show = _explained if explain else print_logs
    return show(paths, chosen, given, format_name, jobs, as_json=as_json)


app = Command(parse)


def _refuse(*combinations: tuple[bool, str]) -> None:
    """Raise ``InputError`` with the message of the first combination of options that is given."""
    from trainmark.errors import InputError

    for is_given, message in combinations:
        if is_given:
            raise InputError(message)


def _explained(
    paths: list[str],
    rule: "Rule | None",
    given: "Facts",
    format_name: str | None,
    _jobs: int,
    *,
    as_json: bool,
) -> int:
    from trainmark.cli.log_explain import explain_logs
    from trainmark.errors import InputError

    if as_json:
        raise InputError("--explain prints text; leave out --json (--json has the witnesses)")
    return explain_logs(paths, rule, given, format_name)


def _refuse_facts_of_logs(
    gpus: int | None, nodes: int | None, batch: int | None, precision: str | None, model: str | None
) -> None:
    from trainmark.errors import InputError

    flags = {"--gpus": gpus, "--nodes": nodes, "--batch": batch, "--precision": precision, "--model": model}
    given = [flag for flag, value in flags.items() if value is not None]
    if given:
        raise InputError(
            f"--tree cannot be combined with {' or '.join(given)}: the paths in the tree state these"
        )


def rule_of(name: str | None, skip: int | None) -> "Rule | None":
    """Return the rule of a name and a number of records to skip; None if neither is given."""
    from trainmark.measure.rules import find_rule

    if name is None and skip is None:
        return None
    return find_rule(name or "window", skip)


def given_facts(
    gpus: int | None, nodes: int | None, batch: int | None, precision: str | None, model: str | None
) -> "Facts":
    """Return the facts that are given for logs; raise ``InputError`` for an unknown precision."""
    from trainmark.errors import InputError, nearest
    from trainmark.logs import Facts
    from trainmark.schema.precision import Precision

    if precision is not None and precision not in set(Precision):
        known = ", ".join(Precision)
        raise InputError(
            f"unknown precision '{precision}'{nearest(precision, list(Precision))} (known: {known})"
        )
    return Facts(
        model=model,
        precision=Precision(precision) if precision else None,
        nodes=nodes,
        gpus=gpus,
        batch_per_device=batch,
    )
