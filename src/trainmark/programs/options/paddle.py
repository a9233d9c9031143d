"""PaddleClas and PaddleNLP: the configuration that ``ppcls`` prints, and the arguments of BERT's pre-training."""

from collections.abc import Iterator, Mapping

from trainmark.programs.options import Dialect, Parameters, RecipeSetting, flag, typed, words
from trainmark.schema.recipe import RecipeAxis


def _read_paddleclas(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that the program prints."""
    yield from words(
        parameters,
        {"data_format": "layout", "num_workers": RecipeAxis.WORKERS, "momentum": RecipeAxis.MOMENTUM},
    )
    if (dali := flag(parameters, "use_dali")) is not None:
        yield RecipeAxis.LOADER, "dali" if dali else "native", parameters["use_dali"]
    if (dynamic := flag(parameters, "use_dynamic_loss_scaling")) is not None:
        yield (
            RecipeAxis.LOSS_SCALING,
            "dynamic" if dynamic else "static",
            parameters["use_dynamic_loss_scaling"],
        )
    if "scale_loss" in parameters:
        yield RecipeAxis.LOSS_SCALE, typed(parameters["scale_loss"].value), parameters["scale_loss"]


def _read_paddlenlp_bert(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that the program prints; an epsilon of Adam implies the optimizer."""
    yield from words(
        parameters,
        {
            "max_predictions_per_seq": RecipeAxis.MAX_PREDICTIONS,
            "gradient_merge_steps": RecipeAxis.ACCUMULATION_STEPS,
            "weight_decay": RecipeAxis.WEIGHT_DECAY,
        },
    )
    if "adam_epsilon" in parameters:
        yield RecipeAxis.OPTIMIZER, "adam", parameters["adam_epsilon"]


DIALECTS: Mapping[str, Dialect] = {
    "paddleclas": Dialect(
        name="PaddleClas",
        marks=(("pretrained_model", "output_dir"),),
        read=_read_paddleclas,
    ),
    "paddlenlp-bert": Dialect(
        name="PaddleNLP BERT run_pretrain.py",
        marks=(("gradient_merge_steps", "max_predictions_per_seq"),),
        read=_read_paddlenlp_bert,
        flags={
            RecipeAxis.MAX_PREDICTIONS: "--max_predictions_per_seq {value}",
            RecipeAxis.ACCUMULATION_STEPS: "--gradient_merge_steps {value}",
        },
    ),
}
