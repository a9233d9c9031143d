#!/bin/bash
#SBATCH --job-name=scaling-of-resnet
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --gpus-per-node=8
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=/tmp/slurm-%j.out
log=/results/scaling.slurm-$SLURM_JOB_ID.out
if ! { : >> "$log"; } 2> /dev/null; then
  why="$SLURMD_NODENAME: $log cannot be written; create its folder there or change job.out, and submit again"
  echo "$why"; scontrol update JobId="$SLURM_JOB_ID" Comment="$why"; exit 2
fi
exec >> "$log" 2>&1
rm -f "/tmp/slurm-$SLURM_JOB_ID.out"
for file in /home/me/suite.yaml; do
  [ -r "$file" ] && continue
  why="$SLURMD_NODENAME: $file cannot be read; put the suite, its cards and the hosts file into a folder that the job's hosts have, and submit again"
  echo "$why"; scontrol update JobId="$SLURM_JOB_ID" Comment="$why"; exit 2
done
exec trainmark run /home/me/suite.yaml --hosts slurm --out /results/scaling --resume
