"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield (
        f"Namespace(amp={run.amp}, arch='transformer_wmt_en_de_big_t2t', distributed_world_size={run.gpus}, "
        f"fp16=False, max_tokens={run.batch_per_device}, update_freq=[1])"
    )
    for line in lines_of(run):
        yield (
            f"Transformer | epoch 0 | step {line.step} |avg loss 5.113 |avg tokens {run.global_batch:.3f} "
            f"|tokens/s {line.rate:.3f} |walltime {line.elapsed_s + 12:.3f} |"
        )
    yield "| Translated 3000 sentences (7441 tokens) in 1.7s (1795.71 sentences/s, 35631.64 tokens/s)"
    yield f"| done training in {sum(run.step_times_s):.1f} seconds"
