"""What the kernel's types do not tell: which type a cache's objects and a variable have.

Names as the kernel spells them in 5.10 to 7.2; one that a kernel does not know is not used there.
"""

from collections.abc import Callable

CACHES = {
    "PING": "inet_sock",
    "RAW": "raw_sock",
    "RAWv6": "raw6_sock",
    "TCP": "tcp_sock",
    "TCPv6": "tcp6_sock",
    "UDP": "udp_sock",
    "UDPv6": "udp6_sock",
    "UNIX": "unix_sock",
    "UNIX-STREAM": "unix_sock",
    "bdev_cache": "bdev_inode",
    "bfilp": "backing_file",
    "btrfs_extent_buffer": "extent_buffer",
    "btrfs_extent_map": "extent_map",
    "btrfs_extent_state": "extent_state",
    "cred_jar": "cred",
    "dax_cache": "dax_device",
    "eventpoll_epi": "epitem",
    "eventpoll_pwq": "eppoll_entry",
    "ext4_extent_status": "extent_status",
    "ext4_inode_cache": "ext4_inode_info",
    "f2fs_inode_cache": "f2fs_inode_info",
    "file_lease_cache": "file_lease",
    "file_lock_cache": "file_lock",
    "file_lock_ctx": "file_lock_context",
    "files_cache": "files_struct",
    "filp": "file",
    "fs_cache": "fs_struct",
    "hugetlbfs_inode_cache": "hugetlbfs_inode_info",
    "inode_cache": "inode",
    "ip_dst_cache": "rtable",
    "jbd2_journal_head": "journal_head",
    "jbd2_transaction_s": "transaction_s",
    "kernfs_iattrs_cache": "kernfs_iattrs",
    "kernfs_node_cache": "kernfs_node",
    "key_jar": "key",
    "mnt_cache": "mount",
    "mqueue_inode_cache": "mqueue_inode_info",
    "net_namespace": "net",
    "numa_policy": "mempolicy",
    "posix_timers_cache": "k_itimer",
    "proc_inode_cache": "proc_inode",
    "radix_tree_node": "xa_node",
    "shared_policy_node": "sp_node",
    "shmem_inode_cache": "shmem_inode_info",
    "sighand_cache": "sighand_struct",
    "signal_cache": "signal_struct",
    "skbuff_fclone_cache": "sk_buff_fclones",
    "skbuff_head_cache": "sk_buff",
    "sock_inode_cache": "socket_alloc",
    "squashfs_inode_cache": "squashfs_inode_info",
    "uid_cache": "user_struct",
    "xfs_buf_item": "xfs_buf_log_item",
    "xfs_ili": "xfs_inode_log_item",
    "xfs_log_ticket": "xlog_ticket",
}
"""The struct in a cache's objects, where it is not called as the cache is."""

MERGED = frozenset(
    (
        "buffer_head",
        "filp",
        "kernfs_node_cache",
        "maple_node",
        "mnt_cache",
        "nsproxy",
        "pool_workqueue",
        "signal_cache",
        "sigqueue",
        "task_group",
        "vma_lock",
        "vmap_area",
    )
)
"""Caches that may stand for others too, whose objects are next to always their own."""

LENT = {"maple_node": "alloc_extent_buffer"}
"""Of these caches those that btrfs shares, as far as it is there: its extent buffers are as large."""

ALLOCATED_IN = {"__alloc_skb": "sk_buff_fclones"}
"""What a function allocates from a cache that may be merged with another one's."""

VARIABLES = {
    "contig_page_data": "pglist_data",
    "init_css_set": "css_set",
    "init_files": "files_struct",
    "init_fs": "fs_struct",
    "init_mm": "mm_struct",
    "init_net": "net",
    "init_nsproxy": "nsproxy",
    "init_task": "task_struct",
    "init_ucounts": "ucounts",
    "init_user_ns": "user_namespace",
    "root_task_group": "task_group",
    "psi_system": "psi_group",
    "rcu_data": "rcu_data",
    "root_user": "user_struct",
    "runqueues": "rq",
    "swapper_space": "address_space",
    "tcp_hashinfo": "inet_hashinfo",
    "tmigr_cpu": "tmigr_cpu",
    "vm_committed_as": "percpu_counter",
}
"""The struct that a variable is."""

WHOLE = {"sched_entity": "sched_entity_stats", "cfs_rq": "cfs_tg_state"}
"""What is allocated where a pointer leads to its beginning, in kernels that have it (kernel/sched/)."""

POINTERS = {
    "root_mem_cgroup": "mem_cgroup",
    "root_ns": "aa_ns",
    "shm_mnt": "vfsmount",
}
"""The struct that a variable points to."""

TABLES: dict[str, tuple[str, str, Callable[[int], int]]] = {
    "__futex_data": ("__futex_data", "hashsize", lambda size: size),
    "dentry_hashtable": ("d_hash_shift", "", lambda shift: 1 << (32 - shift & 31)),
    "inode_hashtable": ("i_hash_mask", "", lambda mask: mask + 1),
    "mount_hashtable": ("m_hash_mask", "", lambda mask: mask + 1),
    "mountpoint_hashtable": ("mp_hash_mask", "", lambda mask: mask + 1),
}
"""Variables that point to a hash table: the variable that tells its length, a member of it, and how."""

PRIVATE = {
    "file": (
        "private_data",
        {
            "eventfd_fops": "eventfd_ctx",
            "eventpoll_fops": "eventpoll",
            "pipeanon_fops": "pipe_inode_info",  # since 6.15
            "pipefifo_fops": "pipe_inode_info",
            "signalfd_fops": "signalfd_ctx",
            "timerfd_fops": "timerfd_ctx",
        },
    ),
    "super_block": (
        "s_fs_info",
        {
            "btrfs": "btrfs_fs_info",
            "devtmpfs": "shmem_sb_info",
            "ext4": "ext4_sb_info",
            "f2fs": "f2fs_sb_info",
            "hugetlbfs": "hugetlbfs_sb_info",
            "proc": "proc_fs_info",
            "rootfs": "shmem_sb_info",
            "tmpfs": "shmem_sb_info",
            "xfs": "xfs_mount",
        },
    ),
}
"""The struct that a `void` pointer leads to: of a file by its operations, of a super block by its type."""

ROUTES = {2: "rtable", 10: "rt6_info"}
"""What a `struct dst_entry` begins, by address family: include/linux/socket.h."""

CHARGED = ("mem_cgroup", "task_group")
"""What a controller has of each control group: its `css.parent` points to another one of the same struct."""

SPACES = {1: "data", 2: "system", 4: "metadata", 5: "data and metadata"}
"""What btrfs allocates space for, by flags: include/uapi/linux/btrfs_tree.h."""

CUT_SHORT = frozenset(("cpumask",))
"""Structs of which only as much is allocated as this machine's CPUs need."""

EMBEDDED = frozenset(("aa_label", "address_space", "inode", "lruvec", "sk_buff", "sock", "zone"))
"""Structs known by their own name in whatever struct they lie."""

ATOMS = frozenset(
    (
        "arch_spinlock_t",
        "atomic64_t",
        "atomic_long_t",
        "atomic_t",
        "callback_head",
        "cpumask",
        "hlist_bl_head",
        "hlist_bl_node",
        "hlist_head",
        "hlist_node",
        "hlist_nulls_head",
        "hlist_nulls_node",
        "kgid_t",
        "kref",
        "kuid_t",
        "list_head",
        "llist_head",
        "llist_node",
        "local_lock_t",
        "local_trylock_t",
        "nodemask_t",
        "optimistic_spin_queue",
        "plist_node",
        "qrwlock",
        "qspinlock",
        "raw_spinlock",
        "raw_spinlock_t",
        "rb_node",
        "rb_root",
        "rb_root_cached",
        "rcu_head",
        "refcount_struct",
        "refcount_t",
        "rwlock_t",
        "seqcount",
        "seqcount_spinlock",
        "seqcount_t",
        "spinlock",
        "spinlock_t",
        "static_key",
        "timer_list",
        "timespec64",
    )
)
"""Types whose parts no report names: the word of a lock, the two pointers of a list."""
