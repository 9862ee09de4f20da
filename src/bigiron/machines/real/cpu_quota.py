"""The quota of CPU time that a real machine's control groups leave to a program: a container may have one."""

import re

# $1 is the list of the groups that the shell is in, $2 where groups are mounted: cgroups(7). A container may
# see its own group as the top.
SCRIPT = (
    "while IFS=: read -r _ of group; do "
    'case ",$of," in ,,) top=$2 files=cpu.max;; '
    '*,cpu,*) top=$2/cpu files="cpu.cfs_quota_us cpu.cfs_period_us";; *) continue;; esac; '
    "group=$top${group%/}; "
    'until [ "$group" = "${group#"$top"}" ]; do '
    '(cd "$group" && echo "@quota=$(cat $files | tr "\\n" " ")") 2>/dev/null; '
    "group=${group%/*}; done; "
    'done <"$1" || :'
)
OWN, TOP = "/proc/self/cgroup", "/sys/fs/cgroup"


def parse(said: str) -> float:
    r"""The least quota that the script has printed, in CPUs; 0: none.

    >>> parse("@quota=max 100000\n@quota=150000 100000\n@quota=-1 100000\n@quota=\n")
    1.5
    >>> parse("")
    0.0
    """
    quotas = re.findall(r"^@quota=(\d+) ([1-9]\d*)\s*$", said, re.MULTILINE)
    return min((int(us) / int(period_us) for us, period_us in quotas), default=0.0)
