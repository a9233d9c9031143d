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
#SBATCH --output=/tmp/slurm-%j.out
#SBATCH --time=720
#SBATCH --signal=B:USR1@300
#SBATCH --partition=gpu
#SBATCH --account=bench
log=/results/scaling.slurm-$SLURM_JOB_ID.out
if ! { : >> "$log"; } 2> /dev/null; then
  why="$SLURMD_NODENAME: $log cannot be written; create its folder there or change job.out, and submit again"
  echo "$why"; scontrol update JobId="$SLURM_JOB_ID" Comment="$why"; exit 2
fi
exec >> "$log" 2>&1
rm -f "/tmp/slurm-$SLURM_JOB_ID.out"
for file in /home/me/suite.yaml /home/me/hosts.yaml; do
  [ -r "$file" ] && continue
  why="$SLURMD_NODENAME: $file cannot be read; put the suite, its cards and the hosts file into a folder that the job's hosts have, and submit again"
  echo "$why"; scontrol update JobId="$SLURM_JOB_ID" Comment="$why"; exit 2
done
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
