// SPDX-License-Identifier: GPL-2.0-or-later
/* What `ppc64_cpu --smt=off` and smt/control do: one operation is all of them. */
#include "hotplug.h"

char *testcase_description = "take the second threads of all cores offline";
unsigned long testcase_operations;

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;

	testcase_operations = smt_prepare(CPU_ONLINE);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	smt_cycle(iterations, CPU_OFFLINE);
}
