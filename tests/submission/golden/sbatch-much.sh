#!/bin/bash
#SBATCH --job-name=resnet-scaling
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --gpus-per-node=8
#SBATCH --nodelist=gpu01,gpu02,gpu03,gpu04
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=/results/scaling.slurm-%j.out
#SBATCH --time=720
#SBATCH --signal=B:USR1@300
#SBATCH --partition=gpu
#SBATCH --account=bench
measured() {
  kill -TERM "$measuring"; wait "$measuring"
  if [ "${SLURM_RESTART_COUNT:-0}" -lt 5 ]; then
    scontrol requeue "$SLURM_JOB_ID"
  fi
  exit 130
}
/opt/trainmark/bin/python -m trainmark.cli.main run /home/me/suite.yaml --hosts /home/me/hosts.yaml --engine slurm --out /results/scaling --resume &
measuring=$!
trap measured USR1
wait "$measuring"
