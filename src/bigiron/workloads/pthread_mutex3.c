// SPDX-License-Identifier: GPL-2.0-or-later
/* User space: one mutex for all threads and the counter it protects, beside it; the mutex's futex. */
#include <pthread.h>

char *testcase_description = "count in a variable that all threads share, under one mutex";

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long count;

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		pthread_mutex_lock(&mutex);
		count++;
		pthread_mutex_unlock(&mutex);
		(*iterations)++;
	}
}
