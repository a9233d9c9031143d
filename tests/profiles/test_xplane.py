"""Traces of XLA's profiler, written field by field, and names of JAX's and TensorFlow's operations."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from trainmark.profiles import read_profile
from trainmark.profiles.classification import classifier
from trainmark.profiles.trace import TraceError
from trainmark.schema.profile import WorkKind as Kind

Events = Sequence[tuple[str, float, float]]


def number(value: int) -> bytes:
    """Return a number of variable length."""
    low, rest = value & 0x7F, value >> 7
    return bytes([low]) if not rest else bytes([low | 0x80]) + number(rest)


def field(index: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return number(index << 3) + number(value)
    return number(index << 3 | 2) + number(len(value)) + value


def plane(name: str, **lines: Events) -> bytes:
    """Return a plane with these lines; the times of events are in milliseconds."""
    names = sorted({event for events in lines.values() for event, *_ in events})
    message = field(2, name.encode())
    for line, events in lines.items():
        body = field(2, line.encode()) + field(3, 1_000_000_000)
        for event, start, end in events:
            times = field(2, round(start * 1e9)) + field(3, round((end - start) * 1e9))
            body += field(4, field(1, names.index(event) + 1) + times)
        message += field(3, body)
    for index, event in enumerate(names, start=1):
        message += field(4, field(1, index) + field(2, field(1, index) + field(2, event.encode())))
    return field(1, message)


def written(tmp_path: Path, *planes: bytes) -> Path:
    (folder := tmp_path / "plugins").mkdir()
    (folder / "vm.xplane.pb").write_bytes(b"".join(planes))
    return tmp_path


MAIN: Events = [("trainmark.steps", 0, 20), ("trainmark.data", 15, 19)]


def test_threads_of_xla_are_divided_by_operation(tmp_path: Path) -> None:
    host = plane(
        "/host:CPU",
        python=MAIN,
        tf_XLAEigen=[("ThunkExecutor::Execute", 0, 10), ("dot.1", 1, 6), ("convolution.2", 8, 9)],
        tf_XLAPjRt=[("all-reduce.3", 4, 12), ("end: all-reduce.3", 12, 13)],
        other=[("dot.1", 0, 20)],
    )

    profile = read_profile(written(tmp_path, host), 1, "jax")

    found = {kind: pytest.approx(seconds * 1e3) for kind, seconds in profile.kinds.items()}
    assert found == {
        Kind.MATMUL: 5, Kind.CONVOLUTION: 1, Kind.COMMUNICATION: 5, Kind.DATA_WAIT: 4, Kind.IDLE: 5,
    }  # fmt: skip
    assert profile.communication_hidden_s == pytest.approx(3e-3)
    assert profile.device == "cpu"


def test_streams_of_a_gpu_count_and_the_host_does_not(tmp_path: Path) -> None:
    host = plane("/host:CPU", python=MAIN, tf_Compute=[("dot.1", 0, 20)])
    device = plane("/device:GPU:0", **{"Stream #13(Compute)": [("gemm_fusion_dot_1", 2, 8)]})

    profile = read_profile(written(tmp_path, host, device), 1, "jax")

    found = {kind: pytest.approx(seconds * 1e3) for kind, seconds in profile.kinds.items()}
    assert found == {Kind.MATMUL: 6, Kind.DATA_WAIT: 4, Kind.IDLE: 10}
    assert profile.device == "cuda"


def instruction(name: str, opcode: str, calls: int = 0) -> bytes:
    called = field(38, bytes([calls])) if calls else b""
    return field(2, field(1, name.encode()) + field(2, opcode.encode()) + called)


def program(*opcodes: str) -> bytes:
    """Return a program with a fusion of these opcodes."""
    inner = b"".join(instruction(f"{opcode}.0", opcode) for opcode in opcodes) + field(5, 7)
    outer = instruction("ynn_fusion.2", "fusion", calls=7) + field(5, 1)
    return field(1, field(3, inner) + field(3, outer))


@pytest.mark.parametrize(
    ("opcodes", "name", "kind"),
    [
        (("parameter", "dot", "add"), "ynn_fusion.2 [dot]", Kind.MATMUL),
        (("parameter", "reduce", "convolution"), "ynn_fusion.2 [convolution]", Kind.CONVOLUTION),
        (("parameter", "multiply", "reduce"), "ynn_fusion.2 [reduce]", Kind.REDUCTION),
        (("parameter", "transpose"), "ynn_fusion.2 [copy]", Kind.COPY),
        (("parameter", "transpose", "tanh"), "ynn_fusion.2 [elementwise]", Kind.ELEMENTWISE),
    ],
)
@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_a_fusion_is_what_its_program_computes(
    tmp_path: Path, opcodes: tuple[str, ...], name: str, kind: Kind, framework: str
) -> None:
    stat = field(5, field(6, program(*opcodes)))
    other = field(5, field(6, program("tanh")))
    entries = [field(4, field(1, 1) + field(2, field(2, b"jit_step(1)") + one)) for one in (stat, other)]
    metadata = field(1, field(2, b"/host:metadata") + b"".join(entries))
    host = plane("/host:CPU", python=MAIN, tf_XLAEigen=[("ynn_fusion.2", 1, 6)])

    profile = read_profile(written(tmp_path, metadata, host), 1, framework)

    assert profile.operations[0].name == name
    assert profile.kinds[kind] == pytest.approx(5e-3)


@pytest.mark.parametrize(
    ("framework", "name", "kind"),
    [
        ("jax", "convolution-base-dilated.1", Kind.CONVOLUTION),
        ("jax", "multiply_add_fusion.12", Kind.ELEMENTWISE),
        ("jax", "input_reduce_fusion", Kind.REDUCTION),
        ("jax", "transpose_copy_fusion.58", Kind.COPY),
        ("jax", "ynn_fusion.194", Kind.OTHER),
        ("jax", "dot_general.3", Kind.MATMUL),
        ("tensorflow", "gradient_tape/model/conv2d/Conv2D/Conv2DBackpropFilter:Conv2DBackpropFilter", Kind.CONVOLUTION),
        ("tensorflow", "EagerLocalExecute: FusedBatchNormGradV3", Kind.NORMALISATION),
        ("tensorflow", "model/dense/BiasAdd:_MklNativeFusedMatMul", Kind.MATMUL),
        ("tensorflow", "SGD/update/ResourceApplyMomentum:ResourceApplyMomentum", Kind.OPTIMIZER),
        ("tensorflow", "model/re_lu_1/Relu:Relu", Kind.ELEMENTWISE),
        ("tensorflow", "StatefulPartitionedCall:StatefulPartitionedCall", Kind.IDLE),
        ("tensorflow", "x:UnheardOf", Kind.OTHER),
    ],
)  # fmt: skip
def test_operations_of_jax_and_tensorflow_have_a_kind(framework: str, name: str, kind: Kind) -> None:
    assert classifier(framework).classify(name)[1] is kind


def test_a_file_cut_at_any_byte_is_read_or_named(tmp_path: Path) -> None:
    whole = plane("/host:CPU", python=MAIN, tf_Compute=[("dot.1", 0, 20)])
    folder = written(tmp_path, whole)
    for length in range(len(whole)):
        (folder / "plugins" / "vm.xplane.pb").write_bytes(whole[:length])
        with pytest.raises(TraceError, match="is not a trace of XLA's profiler"):
            read_profile(folder, 1, "jax")
