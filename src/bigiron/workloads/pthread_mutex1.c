// SPDX-License-Identifier: GPL-2.0-or-later
/* User space: one mutex for all threads, and its futex where one has to wait. Processes each have their own. */
#include <pthread.h>

char *testcase_description = "lock and unlock one mutex that all threads share";

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
		(*iterations)++;
	}
}
