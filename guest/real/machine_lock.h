/* SPDX-License-Identifier: GPL-2.0-or-later */
/* On a real machine one agent measures at a time, whoever started it: two would slow each other down. */
#ifndef MACHINE_LOCK_H
#define MACHINE_LOCK_H

/* Wait for all others, after reporting so; ends the agent where its standard input ends. Returns 0, or 1 on an error. */
int lock_machine(void);
/* The lock is a child's alone from now on: the tasks do not inherit it. */
void leave_machine_lock(void);

#endif
