"""In what aim9/... differs from AIM 7, AIM 9 and reaim: all three have these tests, with other sizes."""

_FILE_KIB = {"aim7": 1024, "aim9": 5 * 1024, "reaim": 10}
"""FILESIZE in the robot's configuration of each suite (lkp-tests: programs/*/run)."""

_HERE_KIB = 1024
_OF_FILES = (
    "disk_cp", "disk_rd", "disk_rr", "disk_rw", "disk_wrt", "sync_disk_cp", "sync_disk_rw", "sync_disk_wrt",
)  # fmt: skip
_OF_MESSAGES = (
    "dgram_pipe", "fifo_test", "pipe_cpy", "shared_memory", "stream_pipe", "tcp_test", "udp_test",
)  # fmt: skip
_WITH_SHORT_MESSAGES = ("aim7", "aim9")  # reaim has up to 4,096 bytes


def differs(suite: str, test: str) -> tuple[str, ...]:
    """In what a test differs where it is of this suite. Those of synchronous writes have half of FILESIZE.

    >>> differs("aim7", "disk_rr"), differs("reaim", "disk_rr"), differs("aim9", "sync_disk_rw")
    ((), ('files of 1 MiB instead of 10 KiB',), ('files of 1 MiB instead of 2.5 MiB',))
    """
    if test in _OF_FILES:
        kib = _FILE_KIB[suite] // (2 if test.startswith("sync_") else 1)
        size = f"{kib / 1024:g} MiB" if kib > 1024 else f"{kib} KiB"
        return () if kib == _HERE_KIB else (f"files of 1 MiB instead of {size}",)
    if test in _OF_MESSAGES and suite in _WITH_SHORT_MESSAGES:
        return ("messages of 1 to 4,096 bytes instead of 1 to 2,048",)
    return ()
