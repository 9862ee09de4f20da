// SPDX-License-Identifier: GPL-2.0-or-later
/* Pipes that many write to: their mutex, ring and wait queues; wake-ups on other CPUs, and their run queues. */
#include "hackbench.h"

char *testcase_description = "send 100 bytes through a pipe to the next receiver of the group";

static int open_channel(struct channel *channel)
{
	int fd[2];

	if (pipe(fd))
		return -1;
	*channel = (struct channel){ .receiver = fd[0], .sender = fd[1] };
	return 0;
}

void testcase_prepare(unsigned long nr_tasks)
{
	open_channels(nr_tasks);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	send_to_group(iterations, nr);
}

void testcase_cleanup(void)
{
	close_channels();
}
