/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What PID 1 owes the machine: file systems at the start, a clean stop at the end. */
#ifndef INIT_H
#define INIT_H

void init_machine(void);
void halt_machine(void) __attribute__((noreturn));

#endif
