"""The allow-list of environment variables."""

from hypothesis import given
from hypothesis import strategies as st

from trainmark.environment import Variant, find_entry
from trainmark.node.machine import allowed_variables


def test_only_variables_that_affect_a_run_are_recorded() -> None:
    environ = {
        "OMP_NUM_THREADS": "2",
        "NCCL_DEBUG": "INFO",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "XLA_FLAGS": "--xla_x=1",
        "HOME": "/root",
        "AWS_SECRET_ACCESS_KEY": "x",
        "DATABASE_URL": "postgres://u:p@h/d",
    }
    assert set(allowed_variables(environ)) == {
        "OMP_NUM_THREADS",
        "NCCL_DEBUG",
        "CUDA_VISIBLE_DEVICES",
        "XLA_FLAGS",
    }


def test_a_name_that_sounds_like_a_secret_is_left_out_even_under_a_listed_prefix() -> None:
    environ = {"TORCH_HUB_TOKEN": "x", "NCCL_PASSWORD": "x", "HOROVOD_SECRET_KEY": "x", "MKL_CBWR": "AVX2"}
    assert allowed_variables(environ) == {"MKL_CBWR": "AVX2"}


def test_credentials_in_an_address_are_cut_out() -> None:
    assert allowed_variables({"TORCH_HOME": "https://user:secret@host/x"}) == {"TORCH_HOME": "https://host/x"}


@given(st.dictionaries(st.text(min_size=1, max_size=12), st.text(max_size=8), max_size=8))
def test_recorded_variables_are_a_subset_of_the_environment(environ: dict[str, str]) -> None:
    assert set(allowed_variables(environ)) <= set(environ)


def test_allocator_settings_of_an_environment_are_in_the_manifest() -> None:
    set_for_pytorch = find_entry("pytorch").variables(Variant.CPU)
    assert set(set_for_pytorch) == {"MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_"}
    assert allowed_variables(set_for_pytorch) == set_for_pytorch
    assert find_entry("pytorch").variables(Variant.CUDA) == {}
