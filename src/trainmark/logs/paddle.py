"""Nodes and devices as printed by ``paddle.distributed.launch``; shared by Paddle's programs."""

from typing import NamedTuple

from trainmark.logs.format import count_items, search_integer, search_word


class PaddleDevices(NamedTuple):
    """Nodes, devices of all nodes, and devices of the log's own node, where Paddle's launcher prints them."""

    nodes: int | None
    gpus: int | None
    gpus_per_node: int | None


def paddle_devices(text: bytes) -> PaddleDevices:
    """Return the devices from the lines, the command or the variables of ``paddle.distributed.launch``.

    The replicas of the job are nodes, those of a node's pod are processes (``launch/controllers/controller.py``).
    """
    trainers = search_integer(
        rb"PADDLE_TRAINERS_NUM(?:['\"]?\s*[:=]\s*['\"]?| +)(\d+)", text
    ) or search_integer(rb"init nccl context nranks: (\d+)", text)
    devices = search_word(_LAUNCH_INFO + rb"devices: ([\d,]+)\s", text) or search_word(
        _LAUNCH + rb"--(?:gpus|selected_gpus|devices)[= ]['\"]?([\d,]+)", text
    )
    replicas = search_integer(_LAUNCH_INFO + rb"Run Pod: [^\n]*replicas (\d+)", text)
    nodes = (
        search_integer(_LAUNCH_INFO + rb"nnodes: (\d+)\n", text)
        or search_integer(_LAUNCH_INFO + rb"mode collective, replicas (\d+)\[", text)
        or search_integer(_LAUNCH + rb"--nnodes[= ]['\"]?(\d+)['\"\s]", text)
        or count_items(search_word(_LAUNCH + rb"--(?:ips|cluster_node_ips)[= ]['\"]?([\w.,-]+)", text))
        # Older launchers print their arguments one per line.
        or count_items(search_word(rb"\n(?:ips|cluster_node_ips)[:=] ?(?!None)([\w.,-]+)\n", text))
    )
    own = replicas or count_items(devices) or search_integer(_LAUNCH_INFO + rb"nproc_per_node: (\d+)\n", text)
    return PaddleDevices(nodes=nodes, gpus=trainers, gpus_per_node=own)


_LAUNCH_INFO = rb"LAUNCH INFO [^\n]*"
_LAUNCH = rb"paddle\.distributed\.(?:fleet\.)?launch [^\n]*"
