// SPDX-License-Identifier: GPL-2.0-or-later
/* User space: one mutex for all threads, a counter in each one's TLS; the mutex's futex. */
#include <pthread.h>

char *testcase_description = "count in a thread-local variable, under one mutex for all threads";

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread volatile unsigned long count;

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
