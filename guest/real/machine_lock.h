/* SPDX-License-Identifier: GPL-2.0-or-later */
/* On a real machine one agent measures at a time: two would slow each other down. */
#ifndef MACHINE_LOCK_H
#define MACHINE_LOCK_H

/*
 * Wait until no other agent has the lock, after reporting which has; the end of standard input ends the wait, and the agent.
 * Where there is no such lock to be had, as in some containers, there is nothing to wait for.
 */
void lock_machine(void);
/*
 * The lock is a child's alone from now on: the tasks do not inherit it. Where the child calls this too, it is another
 * agent's turn.
 */
void leave_machine_lock(void);

#endif
