// SPDX-License-Identifier: GPL-2.0-or-later
/* Interrupts the other threads where they run, so that each returns to itself in the handler: sync_core(). */
#include <assert.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

char *testcase_description = "membarrier that makes the CPUs of other threads serialize";

static void barrier(int command)
{
	long failed = syscall(SYS_membarrier, command, 0, 0);

	assert(!failed);
}

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
		/* In user mode, where the others' interrupts come. */
		for (volatile int i = 0; i < 20000; i++)
			;
		(*iterations)++;
	}
}
