// SPDX-License-Identifier: GPL-2.0-or-later
/* User space: one mutex for all threads, a counter on each one's stack; the mutex's futex. */
#include <pthread.h>

char *testcase_description = "count in the task's own variable, under one mutex for all threads";

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void testcase(unsigned long long *iterations, unsigned long nr)
{
	volatile unsigned long count = 0;

	(void)nr;

	while (1) {
		pthread_mutex_lock(&mutex);
		count++;
		pthread_mutex_unlock(&mutex);
		(*iterations)++;
	}
}
