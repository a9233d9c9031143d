"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, dll_stamp, end_of, lines_of, overall_rate

_ACCUMULATION = 4


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield (
        f"{dll_stamp(run.start)} PARAMETER Config : [\"Namespace(bert_model='bert-base', fp16={run.amp}, "
        f"gradient_accumulation_steps={_ACCUMULATION}, max_predictions_per_seq=20, n_gpu_total={run.gpus}, "
        f'train_batch_size={run.batch_per_device})"] '
    )
    yield f"{dll_stamp(run.start)} PARAMETER batch_size_per_gpu : {run.batch_per_device // _ACCUMULATION} "
    for line in lines_of(run):
        yield (
            f"{dll_stamp(line.clock)} Training Epoch: 0 Training Iteration: {line.step}  average_loss : 9.11  "
            "step_loss : 9.1  learning_rate : 0.004 "
        )
    seconds = sum(run.step_times_s)
    yield (
        f"{dll_stamp(end_of(run))}  e2e_train_time : {seconds + 9} s training_sequences_per_second : "
        f"{overall_rate(run)} sequences/s final_loss : 8.5 None raw_train_time : {seconds} s"
    )
