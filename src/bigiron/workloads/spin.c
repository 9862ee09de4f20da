// SPDX-License-Identifier: GPL-2.0-or-later
/* A CPU-bound task that never asks the kernel for anything: what it does not get of its CPU, the kernel took. */
#include "spin.h"

char *testcase_description = "compute, without any system call: what is left of a CPU for its user";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	spin(iterations);
}
