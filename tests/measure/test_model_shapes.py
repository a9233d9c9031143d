"""Shapes of language models: active parameters and operations per token by 6N + attention."""

import pytest

from trainmark.measure.model_shapes import find_model, load_models


@pytest.mark.parametrize(
    ("model", "parameters", "vocabulary", "hidden", "norms"),
    [
        # All parameters as published, less the lookup of the embedding and the norms.
        ("llama3_8b", 8_030_261_248, 128256, 4096, 65 * 4096),
        ("llama3.1_70b", 70_553_706_496, 128256, 8192, 161 * 8192),
        ("llama3.1_405b", 405_853_388_800, 128256, 16384, 253 * 16384),
    ],
)
def test_dense_models_have_their_published_parameters(
    model: str, parameters: int, vocabulary: int, hidden: int, norms: int
) -> None:
    found = find_model(model)

    assert found is not None
    assert found.active_parameters == parameters - vocabulary * hidden - norms


@pytest.mark.parametrize(
    ("model", "billions"),
    [
        ("qwen3_30b_a3b", 3.3),
        ("qwen3_235b_a22b", 22),
        ("gpt_oss_120b", 5.1),
        ("deepseek_v3", 37),
        ("kimi_k2", 32),
    ],
)
def test_models_of_experts_count_the_active_ones(model: str, billions: float) -> None:
    found = find_model(model)

    assert found is not None
    assert found.active_parameters / 1e9 == pytest.approx(billions, rel=0.09)


def test_attention_is_that_of_palm_and_causal_attention_half_of_it() -> None:
    found = find_model("llama3-70b")

    assert found is not None
    assert found.full_attention(8192) == 12 * 80 * 8192 * 8192
    both = found.operations(8192, causal=False) + 6 * found.active_parameters
    assert both == pytest.approx(2 * found.operations(8192, causal=True))


def test_a_window_limits_the_attention_of_its_layers() -> None:
    found = find_model("gpt_oss_120b")

    assert found is not None
    assert found.full_attention(100) == 12 * 36 * 4096 * 100
    assert found.full_attention(4096) == 12 * 4096 * (18 * 4096 + 18 * 256)


def test_every_shape_has_a_source_and_a_name_of_its_own() -> None:
    names = [name for one in load_models() for name in (one.model, *one.aliases)]

    assert len(names) == len(set(names))
    assert all(one.source for one in load_models())
    assert find_model("nobody_knows_7b") is None
