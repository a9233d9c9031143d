"""``trainmark reference``: what it prints, and what it says to a wrong name."""

import json

import pytest
from typer.testing import CliRunner

from trainmark.cli.reference import app
from trainmark.errors import InputError

runner = CliRunner()


def test_list_prints_a_line_a_figure() -> None:
    result = runner.invoke(app, ["list", "--framework", "mxnet", "--device", "dgx-2", "--precision", "fp32"])

    assert result.exit_code == 0
    assert result.stdout == (
        "name                                          value  unit      device     devices  nodes  precision  batch\n"
        "ngc-mxnet-resnet50-dgx2-v100-32gb-fp32-1gpu   417    images/s  V100-32GB  1        1      fp32       128\n"
        "ngc-mxnet-resnet50-dgx2-v100-32gb-fp32-2gpu   821    images/s  V100-32GB  2        1      fp32       128\n"
        "ngc-mxnet-resnet50-dgx2-v100-32gb-fp32-4gpu   1623   images/s  V100-32GB  4        1      fp32       128\n"
        "ngc-mxnet-resnet50-dgx2-v100-32gb-fp32-8gpu   3223   images/s  V100-32GB  8        1      fp32       128\n"
        "ngc-mxnet-resnet50-dgx2-v100-32gb-fp32-16gpu  6338   images/s  V100-32GB  16       1      fp32       128\n"
        "\n"
        "5 published figures\n"
    )


def test_list_prints_one_json_object_a_line() -> None:
    result = runner.invoke(app, ["list", "--device", "a100-80gb", "--precision", "tf32", "--json"])

    figures = [json.loads(line) for line in result.stdout.splitlines()]
    assert {figure["precision"] for figure in figures} == {"tf32"}
    assert all(figure["value"] == float(figure["printed"]) for figure in figures)


def test_a_cell_without_a_number_shows_its_outcome() -> None:
    result = runner.invoke(
        app, ["list", "--framework", "mxnet", "--device", "v100-16gb", "--model", "resnet50"]
    )

    assert "(missing)" in result.stdout


def test_show_prints_recipe_source_and_notes() -> None:
    result = runner.invoke(app, ["show", "ngc-pytorch-resnet50-v100-32gb-amp-1gpu"])

    assert result.exit_code == 0
    assert result.stdout.startswith("ngc-pytorch-resnet50-v100-32gb-amp-1gpu: 1156 images/s\n")
    assert "  layout             nhwc\n" in result.stdout
    assert "8a6ae9588b04f0c398add88d24cbcea3f704a270" in result.stdout


def test_show_sets_the_values_of_a_block_under_each_other_and_names_units() -> None:
    result = runner.invoke(app, ["show", "dlperf-pytorch-bert-base-v100-16gb-fp32-bs32-1n1g"])

    assert "  device memory (GB) 16\n" in result.stdout
    assert "  optimizer               adam\n" in result.stdout
    assert "  max predictions per seq 20\n" in result.stdout


def test_show_as_json_is_the_whole_figure() -> None:
    result = runner.invoke(app, ["show", "perf-pytorch-21.03-resnet50-v100-32gb-amp-bs256-32gpu", "--json"])

    figure = json.loads(result.stdout)
    assert (figure["value"], figure["nodes"], figure["recipe"]["layout"]) == (21259.81, 4, "nchw")


def test_an_unknown_name_is_an_input_error() -> None:
    result = runner.invoke(app, ["show", "ngc-pytorch-resnet50"])

    assert isinstance(result.exception, InputError)
    with pytest.raises(InputError, match="no reference 'ngc-pytorch-resnet50'"):
        raise result.exception
