"""A format's sample: mistakes in its fields are reported in one line."""

import pytest

from trainmark.errors import InputError
from trainmark.logs.description.sample import make_sample


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("step {step} batch {batch_per_device}", "mine.yaml: sample: unknown field 'batch_per_device'"),
        (
            "step {stepp}",
            "unknown field 'stepp'; did you mean 'step'? (docs/how-to/describe-a-log.md lists the fields)",
        ),
        ("step {step:s}", "mine.yaml: sample: cannot be filled in: "),
    ],
)
def test_an_invalid_field_of_a_sample_is_named(line: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        make_sample({"line": line}, "mine.yaml: sample")

    assert sentence in str(caught.value)
