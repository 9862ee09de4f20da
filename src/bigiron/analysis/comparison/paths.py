"""Call paths as people say them: from the system call on, without the entry code that all share."""

from bigiron.analysis.kernel_functions import ENTRY_CODE, SYSTEM_CALL


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
    while functions and ENTRY_CODE.fullmatch(functions[0]):
        del functions[0]
    if functions and (call := SYSTEM_CALL.fullmatch(functions[0])):
        functions[0] = call[1] or call[2]
    return ";".join(functions)
