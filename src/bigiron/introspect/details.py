"""What tells one struct of a type from others: a file's system and kind, a cache's name, a node's number."""

import stat
from collections.abc import Callable
from functools import lru_cache

from bigiron.introspect import kernel_knowledge
from bigiron.introspect.guest_memory import GuestMemory
from bigiron.introspect.mm.structs import UnreadableError

_FILE_KINDS = {
    stat.S_IFDIR: "directory",
    stat.S_IFREG: "file",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFLNK: "link",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


class Details:
    """The details of the structs in one guest's memory."""

    def __init__(self, guest: GuestMemory) -> None:
        self._structs = structs = guest.structs
        self._slabs = guest.slabs
        value, text = structs.value, structs.text
        # Thousands of cache lines are asked for of one file's pages, and several places of one object.
        self.of_mapping = lru_cache(None)(lambda at: self._file(value("address_space", at, "host")))
        self._of = lru_cache(None)(self._read)
        self._readers: dict[str, Callable[[int], str]] = {
            "address_space": self.of_mapping,
            "btrfs_space_info": lambda at: kernel_knowledge.SPACES.get(
                value("btrfs_space_info", at, "flags"), ""
            ),
            "dentry": self._dentry,
            "inode": self._file,
            "kmem_cache": lambda at: text(value("kmem_cache", at, "name")),
            "kmem_cache_node": self._cache_name,
            "node_barn": self._cache_name,
            "slab_sheaf": self._cache_name,
            "pglist_data": lambda at: f"node {value('pglist_data', at, 'node_id')}",
            "super_block": self.file_system,
            "task_struct": lambda at: text(at + structs.member("task_struct", "comm").start),
            "zone": lambda at: f"{text(value('zone', at, 'name'))}, node {value('zone', at, 'node')}",
        }

    def of(self, type: str, address: int) -> str:
        """The detail of the struct of that type at an address; "" where it has none."""
        return self._of(type, address) if type in self._readers else ""

    def _read(self, type: str, address: int) -> str:
        try:
            return self._readers[type](address)
        except UnreadableError:
            return ""

    def file_system(self, super_block: int) -> str:
        """The name of a file system's type."""
        type = self._structs.value("super_block", super_block, "s_type")
        return self._structs.text(self._structs.value("file_system_type", type, "name"))

    def _file(self, inode: int) -> str:
        """The file system and what kind of file: `tmpfs directory`."""
        kind = _FILE_KINDS.get(stat.S_IFMT(self._structs.value("inode", inode, "i_mode")), "")
        return f"{self.file_system(self._structs.value('inode', inode, 'i_sb'))} {kind}".strip()

    def _dentry(self, address: int) -> str:
        if inode := self._structs.value("dentry", address, "d_inode"):
            return self._file(inode)
        return f"{self.file_system(self._structs.value('dentry', address, 'd_sb'))}, no file"

    def _cache_name(self, part: int) -> str:
        found = self._slabs.part_at(part)
        return found[1] if found else ""
