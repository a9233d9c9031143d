#!/bin/bash
#SBATCH --job-name=scaling-of-resnet
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --gpus-per-node=8
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=/results/scaling.slurm-%j.out
exec trainmark run /home/me/suite.yaml --hosts slurm --out /results/scaling --resume
