"""How the numbers are computed, and how to get them again."""

from trainmark.report.blocks import Block, Bullets, Code, Paragraph, Section, code, plain
from trainmark.report.context import Context


def method(context: Context) -> Section:
    """Return the rules behind the numbers, each in a sentence or two."""
    say = context.say
    used = [
        plain(say(f"method_{name}")) for name in ("throughput", "interval", "speedup", "outcome", "warmup")
    ]
    more = Paragraph((*plain(say("method_more")), *code("docs/concepts.md"), *plain(say("stop"))))
    return Section("method", say("method_title"), (Bullets(tuple(used)), more))


def reproduce(context: Context) -> Section:
    """Return the command that made the results, and the files to read them from."""
    say = context.say
    blocks: list[Block] = [Code(say("reproduce_command"), context.results.command)]
    names = ("suite.yaml", "results.json", "results.csv", "runs.csv")
    held = [
        (*context.link(name, name), *plain(say("colon") + say(f"file_{name.replace('.', '_')}")))
        for name in names
        if (context.directory / name).is_file()
    ]
    if held:
        blocks.append(Bullets(tuple(held)))
    return Section("reproduce", say("reproduce_title"), tuple(blocks))
