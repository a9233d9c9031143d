"""Writes a log as NVIDIA's PyTorch ConvNets print it, for tests: settings, then one line a step."""

from collections.abc import Mapping

SETTINGS = {
    "data": "/imagenet",
    "data_backend": "dali-cpu",
    "arch": "resnet50",
    "workers": "5",
    "prefetch": "2",
    "image_size": "None",
    "batch_size": "256",
    "optimizer_batch_size": "-1",
    "lr_schedule": "step",
    "label_smoothing": "0.0",
    "mixup": "0.0",
    "optimizer": "sgd",
    "momentum": "0.9",
    "weight_decay": "0.0001",
    "static_loss_scale": "256.0",
    "amp": "True",
    "raport_file": "benchmark.json",
    "save_checkpoints": "True",
    "jit": "no",
    "memory_format": "nchw",
    "gpu_affinity": "none",
    "distributed": "False",
    "world_size": "1",
}


def ngc_log(
    rate: float = 800.0, steps: int = 60, wait: float = 0.01, settings: Mapping[str, str] = SETTINGS
) -> str:
    """Return a log of ``steps`` steps at ``rate`` images/s, of which the share ``wait`` is spent on data."""
    words = "  ".join(f"{name} : {value}" for name, value in settings.items())
    lines = [f"DLL 2023-01-02 03:04:05.000000 - PARAMETER {words} "]
    step_s = 256 / rate
    for step in range(1, steps + 1):
        minute, second = divmod(10 + step * step_s, 60)
        lines.append(
            f"DLL 2023-01-02 03:{4 + int(minute):02d}:{second:09.6f} - Epoch: 0 Iteration: {step}  "
            f"train.loss : 6.90000 None train.compute_ips : {rate / (1 - wait):.2f} images/s "
            f"train.total_ips : {rate:.2f} images/s train.lr : 0.1 "
        )
    lines.append("DLL 2023-01-02 03:06:00.000000 - Summary: Epoch: 0  train.total_ips : 800.00 images/s ")
    lines.append("Experiment ended")
    return "\n".join(lines) + "\n"
