"""Call paths as people say them: from the system call on, without the entry code that all share."""

import re

_SYSTEM_CALL = re.compile(r"__(?:x64|ia32|arm64|se|do)_sys_(\w+)|sys_(\w+)")
_ENTRY = re.compile(
    r"entry_\w+|do_syscall_\w+|x64_sys_call|system_call_\w+|asm_\w+"  # x86 and POWER
    r"|vectors|__bp_harden_\w+|el0(t_64)?_sync(_handler)?|(do_)?el0_svc[.\w]*|invoke_syscall"  # arm64
)


def short(path: str) -> str:
    """A path without its entry code; a system call by its own name.

    >>> short("entry_SYSCALL_64_after_hwframe;do_syscall_64;__x64_sys_openat;do_sys_openat2;path_openat")
    'openat;do_sys_openat2;path_openat'
    >>> short("asm_exc_page_fault;exc_page_fault;handle_mm_fault")
    'exc_page_fault;handle_mm_fault'
    >>> short("el0t_64_sync;el0t_64_sync_handler;el0_svc;invoke_syscall;__arm64_sys_close;filp_flush")
    'close;filp_flush'
    >>> short("entry_SYSCALL_64_after_hwframe;do_syscall_64;syscall_exit_to_user_mode")
    'syscall_exit_to_user_mode'
    """
    functions = path.split(";")
    while functions and _ENTRY.fullmatch(functions[0]):
        del functions[0]
    if functions and (call := _SYSTEM_CALL.fullmatch(functions[0])):
        functions[0] = call[1] or call[2]
    return ";".join(functions)
