// SPDX-License-Identifier: GPL-2.0-or-later
/* Each task sends messages to the next one, on another CPU: what one allocates the other frees. */
#include <assert.h>
#include <sys/ipc.h>
#include <sys/msg.h>

#define MESSAGES 32
#define BYTES 256

char *testcase_description = "send messages to the task on the next CPU and receive its neighbour's";

static int queues[64];
static unsigned long nr_queues;

void testcase_prepare(unsigned long nr_tasks)
{
	assert(nr_tasks <= sizeof(queues) / sizeof(*queues));
	for (nr_queues = 0; nr_queues < nr_tasks; nr_queues++)
		queues[nr_queues] = msgget(IPC_PRIVATE, 0600);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct {
		long type;
		char text[BYTES];
	} message = { .type = 1 };

	while (1) {
		for (int i = 0; i < MESSAGES; i++)
			assert(!msgsnd(queues[(nr + 1) % nr_queues], &message, BYTES, 0));
		for (int i = 0; i < MESSAGES; i++)
			assert(msgrcv(queues[nr], &message, BYTES, 0, 0) == BYTES);
		(*iterations)++;
	}
}
