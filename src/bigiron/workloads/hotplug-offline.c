// SPDX-License-Identifier: GPL-2.0-or-later
/* A CPU goes: its tasks and interrupts move, the scheduler rebuilds its domains, grace periods are waited for. */
#include "hotplug.h"

char *testcase_description = "take a CPU offline, one after the other";
unsigned long testcase_operations;

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;

	testcase_operations = hotplug_prepare(CPU_ONLINE);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	hotplug_cycle(iterations, CPU_OFFLINE);
}
