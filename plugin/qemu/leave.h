/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QEMU's function that has a CPU give its thread to the next one before its next block, and touches no other CPU. */
#ifndef LEAVE_H
#define LEAVE_H

typedef void leave_fn(void *cpu);

/* QEMU exports it if it is built with modules, as distributions do. NULL: not found. */
leave_fn *qemu_leave(void);

#endif
