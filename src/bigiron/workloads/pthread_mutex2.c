// SPDX-License-Identifier: GPL-2.0-or-later
/* Nothing in the kernel: uncontended, it stays in user space. Any count is the baseline's. */
#include <pthread.h>

char *testcase_description = "lock and unlock the task's own mutex, uncontended";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	(void)nr;

	while (1) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
		(*iterations)++;
	}
}
