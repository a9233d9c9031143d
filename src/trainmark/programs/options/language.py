"""Megatron-LM and MaxText: the arguments that both print before they train a language model."""

from collections.abc import Iterator, Mapping

from trainmark.programs.options import NONE, Dialect, Parameters, RecipeSetting, flag, words
from trainmark.schema.recipe import RecipeAxis


def _read_megatron(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that Megatron-LM's ``arguments.py`` prints."""
    yield from words(
        parameters,
        {
            "seq_length": RecipeAxis.SEQUENCE_LENGTH,
            "micro_batch_size": RecipeAxis.MICRO_BATCH,
            "global_batch_size": RecipeAxis.GLOBAL_BATCH,
            "data_parallel_size": RecipeAxis.DATA_PARALLEL,
            "tensor_model_parallel_size": RecipeAxis.TENSOR_PARALLEL,
            "pipeline_model_parallel_size": RecipeAxis.PIPELINE_PARALLEL,
            "virtual_pipeline_model_parallel_size": RecipeAxis.VIRTUAL_PIPELINE,
            "context_parallel_size": RecipeAxis.CONTEXT_PARALLEL,
            "expert_model_parallel_size": RecipeAxis.EXPERT_PARALLEL,
            "optimizer": RecipeAxis.OPTIMIZER,
            "weight_decay": RecipeAxis.WEIGHT_DECAY,
            "num_workers": RecipeAxis.WORKERS,
        },
    )
    if "recompute_granularity" in parameters:
        recompute = parameters["recompute_granularity"]
        value = recompute.value.lower()
        yield RecipeAxis.ACTIVATION_CHECKPOINTING, "none" if value in NONE else value, recompute
    if "attention_backend" in parameters:
        backend = parameters["attention_backend"]
        yield RecipeAxis.ATTENTION, backend.value.lower().removeprefix("attnbackend."), backend
    elif (flash := flag(parameters, "use_flash_attn")) is not None:
        yield RecipeAxis.ATTENTION, "flash" if flash else "unfused", parameters["use_flash_attn"]


def _read_maxtext(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that MaxText's ``pyconfig.py`` prints; -1 is a size that it chooses itself."""
    known = words(
        parameters,
        {
            "max_target_length": RecipeAxis.SEQUENCE_LENGTH,
            "per_device_batch_size": RecipeAxis.MICRO_BATCH,
            "gradient_accumulation_steps": RecipeAxis.ACCUMULATION_STEPS,
            "attention": RecipeAxis.ATTENTION,
            "ici_fsdp_parallelism": RecipeAxis.FSDP_SHARDS,
            "ici_tensor_parallelism": RecipeAxis.TENSOR_PARALLEL,
            "ici_context_parallelism": RecipeAxis.CONTEXT_PARALLEL,
            "ici_expert_parallelism": RecipeAxis.EXPERT_PARALLEL,
        },
    )
    yield from (setting for setting in known if setting[1] != -1)
    if "remat_policy" in parameters:
        policy = parameters["remat_policy"]
        value = policy.value.lower()
        yield (
            RecipeAxis.ACTIVATION_CHECKPOINTING,
            {"full": "full", "minimal": "selective"}.get(value, value),
            policy,
        )


DIALECTS: Mapping[str, Dialect] = {
    "megatron-lm": Dialect(
        name="Megatron-LM",
        marks=(("tensor_model_parallel_size", "micro_batch_size", "seq_length"),),
        read=_read_megatron,
        flags={
            RecipeAxis.SEQUENCE_LENGTH: "--seq-length {value}",
            RecipeAxis.MICRO_BATCH: "--micro-batch-size {value}",
            RecipeAxis.GLOBAL_BATCH: "--global-batch-size {value}",
            RecipeAxis.TENSOR_PARALLEL: "--tensor-model-parallel-size {value}",
            RecipeAxis.PIPELINE_PARALLEL: "--pipeline-model-parallel-size {value}",
            RecipeAxis.CONTEXT_PARALLEL: "--context-parallel-size {value}",
            RecipeAxis.EXPERT_PARALLEL: "--expert-model-parallel-size {value}",
        },
    ),
    "maxtext": Dialect(
        name="MaxText",
        marks=(("max_target_length", "per_device_batch_size"),),
        read=_read_maxtext,
        flags={
            RecipeAxis.SEQUENCE_LENGTH: "max_target_length={value}",
            RecipeAxis.MICRO_BATCH: "per_device_batch_size={value}",
            RecipeAxis.ATTENTION: "attention={value}",
        },
    ),
}
