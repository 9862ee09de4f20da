#!/bin/sh
#SBATCH --job-name=bigiron
#SBATCH --ntasks=8
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=08:00:00
# sbatch slurm.sh STUDY: eight workers of a cell each, wherever Slurm puts them, go on with STUDY in a folder
# that all nodes share. Ended by Slurm, submit it again: the study goes on where it was.
set -eu
study=$1
here=$(hostname -f)
[ -d certificates ] || bigiron fleet init certificates
bigiron fleet scheduler --listen "tls://$here:8786" --certificates certificates &
scheduler=$!
srun bigiron fleet worker "tls://$here:8786" --certificates certificates \
    --cpus "$SLURM_CPUS_PER_TASK" --memory "$SLURM_MEM_PER_CPU" &
bigiron run "$study" --fleet "tls://$here:8786" --certificates certificates
kill $scheduler
