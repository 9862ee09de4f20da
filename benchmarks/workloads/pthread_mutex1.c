// SPDX-License-Identifier: GPL-2.0-or-later
/* One mutex of user space for all threads: its futex, where a thread has to wait. */
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

char *testcase_description = "lock and unlock one mutex that all threads share";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
		(*iterations)++;
	}
}
