// SPDX-License-Identifier: GPL-2.0-or-later
/* All CPUs but the first go, one after the other, and come again: half of the operations are hotplug-offline's. */
#include "hotplug.h"

char *testcase_description = "take a CPU offline, one after the other, then bring each online";
unsigned long testcase_operations;

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;

	testcase_operations = 2 * hotplug_prepare(CPU_ONLINE);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	hotplug_there_and_back(iterations);
}
