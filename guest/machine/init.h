/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What PID 1 of a virtual machine has: a line to the controller, and a clean stop at the end. */
#ifndef INIT_H
#define INIT_H

#if defined(__powerpc64__)
#define SECOND_SERIAL_LINE "/dev/hvc1"
#elif defined(__aarch64__)
#define SECOND_SERIAL_LINE "/dev/ttyAMA1"
#else
#define SECOND_SERIAL_LINE "/dev/ttyS1"
#endif

void halt_machine(void) __attribute__((noreturn));

#endif
