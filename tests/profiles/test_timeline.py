"""Division of a step's time: hand-made intervals, spans of a thread, and a small trace of a GPU."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.profiles import read_profile
from trainmark.profiles.classification import Role, classifier
from trainmark.profiles.lanes import Span, flatten
from trainmark.profiles.timeline import Interval, divide
from trainmark.profiles.trace import TraceError
from trainmark.schema.profile import WorkKind as Kind


def work(start: float, end: float, kind: Kind) -> Interval:
    return Interval(start, end, kind, kind.value)


def test_communication_is_exposed_only_where_nothing_else_runs() -> None:
    compute = [work(0, 4, Kind.MATMUL), work(6, 7, Kind.ELEMENTWISE)]
    exchange = [work(2, 9, Kind.COMMUNICATION)]

    shares = divide([compute, exchange], 0, 10)

    assert shares.kinds == {Kind.MATMUL: 4, Kind.ELEMENTWISE: 1, Kind.COMMUNICATION: 4, Kind.IDLE: 1}
    assert shares.hidden == {Kind.COMMUNICATION: 3}


def test_operations_that_run_at_once_share_the_time() -> None:
    shares = divide([[work(0, 4, Kind.MATMUL)], [work(2, 4, Kind.CONVOLUTION)]], 0, 4)

    assert shares.kinds == {Kind.MATMUL: 3, Kind.CONVOLUTION: 1}


def test_a_wait_for_data_counts_where_no_operation_runs() -> None:
    host, stream = [work(0, 5, Kind.DATA_WAIT)], [work(0, 3, Kind.MATMUL)]

    assert divide([stream, host], 0, 6).kinds == {Kind.MATMUL: 3, Kind.DATA_WAIT: 2, Kind.IDLE: 1}


lanes = st.lists(
    st.lists(
        st.tuples(st.integers(-5, 30), st.integers(1, 9), st.sampled_from(list(Kind))).map(
            lambda drawn: work(drawn[0], drawn[0] + drawn[1], drawn[2])
        ),
        max_size=8,
    ),
    max_size=4,
)


@given(lanes)
def test_the_kinds_add_up_to_the_stretch(drawn: list[list[Interval]]) -> None:
    assert sum(divide(drawn, 0, 20).kinds.values()) == pytest.approx(20)


def span(start: float, end: float, name: str) -> Span:
    return Span(start, end, name, is_operation=not name.startswith("#"))


def flat(*spans: Span) -> list[tuple[float, float, Kind]]:
    return [(one.start, one.end, one.kind) for one in flatten(spans, classifier("pytorch"))]


def test_the_innermost_known_operation_decides() -> None:
    found = flat(span(0, 10, "aten::conv2d"), span(1, 3, "aten::unheard_of"), span(5, 8, "aten::copy_"))

    assert found == [
        (0, 1, Kind.CONVOLUTION), (1, 3, Kind.CONVOLUTION), (3, 5, Kind.CONVOLUTION), (5, 8, Kind.COPY),
        (8, 10, Kind.CONVOLUTION),
    ]  # fmt: skip


def test_a_region_decides_for_all_in_it() -> None:
    found = flat(span(0, 4, "Optimizer.step#SGD.step"), span(1, 2, "aten::mm"))

    assert {kind for *_, kind in found} == {Kind.OPTIMIZER}
    assert sum(end - start for start, end, _ in found) == 4


def test_an_unknown_operation_is_other_and_an_annotation_is_nothing() -> None:
    assert flat(span(0, 1, "aten::unheard_of")) == [(0, 1, Kind.OTHER)]
    assert flat(span(0, 1, "#my own span")) == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::addmm", Kind.MATMUL),
        ("ampere_fp16_s1688gemm_fp16_128x64_sliced1x2_ldg8_f2f_tn", Kind.MATMUL),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT", Kind.MATMUL),
        ("aten::convolution_backward", Kind.CONVOLUTION),
        ("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32", Kind.CONVOLUTION),
        ("cudnn::bn_fw_tr_1C11_kernel_NCHW", Kind.NORMALISATION),
        ("aten::native_layer_norm_backward", Kind.NORMALISATION),
        ("flash_fwd_kernel", Kind.ATTENTION),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7", Kind.ATTENTION),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_7", Kind.ATTENTION),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >", Kind.ELEMENTWISE),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >", Kind.REDUCTION),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", Kind.COMMUNICATION),
        ("Memcpy HtoD (Pinned -> Device)", Kind.COPY),
        ("void at::native::multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor>", Kind.OPTIMIZER),
        ("aten::view", Kind.IDLE),
        ("my_kernel", Kind.OTHER),
    ],
)  # fmt: skip
def test_operations_and_kernels_of_pytorch_have_a_kind(name: str, kind: Kind) -> None:
    assert classifier("pytorch").classify(name)[1] is kind


def test_a_framework_without_patterns_knows_no_operation() -> None:
    assert classifier("no such framework").classify("aten::mm") == (Role.UNKNOWN, Kind.OTHER)


def event(category: str, name: str, start: float, end: float, thread: int, **args: Any) -> dict[str, Any]:
    """Return an event of a trace; times are in milliseconds, threads below 100 are streams."""
    common = {"ph": "X", "cat": category, "name": name, "ts": start * 1e3, "dur": (end - start) * 1e3}
    streams = {"stream": thread} if thread < 100 else {}
    return {**common, "pid": 0, "tid": thread, "args": {**args, **streams}}


def gpu_trace(tmp_path: Path) -> Path:
    """Write a step of 20 ms on two streams: products, a hidden and an exposed all-reduce, an update, a copy."""
    main, compute, exchange = 100, 7, 20
    events = [
        event("user_annotation", "trainmark.steps", 0, 20, main),
        event("cpu_op", "aten::mm", 0, 1, main),
        event("cuda_runtime", "cudaLaunchKernel", 0.5, 0.6, main, correlation=1),
        event("user_annotation", "Optimizer.step#SGD.step", 1, 3, main),
        event("cuda_runtime", "cudaLaunchKernel", 2, 2.1, main, correlation=2),
        event("cpu_op", "aten::native_layer_norm", 3, 4, main),
        event("cuda_runtime", "cudaLaunchKernel", 3.5, 3.6, main, correlation=3),
        event("user_annotation", "trainmark.data", 17, 20, main),
        event("kernel", "cutlass_gemm", 1, 7, compute, correlation=1),
        event("kernel", "ncclDevKernel_AllReduce", 5, 10, exchange, correlation=9),
        event("kernel", "vectorized_elementwise_kernel", 10, 12, compute, correlation=2),
        event("kernel", "nameless", 12, 13, compute, correlation=3),
        event("gpu_memcpy", "Memcpy HtoD", 12, 15, exchange, correlation=8),
    ]
    (tmp_path / "rank0.pt.trace.json").write_text(json.dumps({"traceEvents": events}))
    return tmp_path


def test_kernels_of_a_gpu_are_divided_by_stream_and_launch(tmp_path: Path) -> None:
    profile = read_profile(gpu_trace(tmp_path), 2, "pytorch")

    per_step = {kind: pytest.approx(2 * seconds * 1e3) for kind, seconds in profile.kinds.items()}
    assert per_step == {
        Kind.MATMUL: 6,
        Kind.COMMUNICATION: 3,  # from 7 to 10 nothing else runs
        Kind.OPTIMIZER: 2,  # by the span in which it was launched
        Kind.NORMALISATION: 1,  # a nameless kernel, by the operation that launched it
        Kind.COPY: 2,
        Kind.DATA_WAIT: 3,
        Kind.IDLE: 3,
    }
    assert profile.communication_hidden_s == pytest.approx(1e-3)
    assert profile.copy_hidden_s == pytest.approx(0.5e-3)
    assert profile.device == "cuda"
    assert sum(profile.kinds.values()) == pytest.approx(profile.step_s)
    assert profile.operations[0].name == "cutlass_gemm"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"traceEvents": [{"ph": "X", "name": "a"}]}', '{"traceEvents": 3}']
)
def test_a_file_that_is_no_trace_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "rank0.pt.trace.json").write_text(text)

    with pytest.raises(TraceError, match=r"rank0\.pt\.trace\.json: is not a trace"):
        read_profile(tmp_path, 1, "pytorch")


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="has 0 traces"):
        read_profile(tmp_path, 1, "pytorch")
