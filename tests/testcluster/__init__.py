"""A cluster of hosts on one machine: network, folders, sshd, OpenMPI and Slurm of their own. Standard library only."""
