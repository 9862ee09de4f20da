// SPDX-License-Identifier: GPL-2.0-or-later
/* User space: an addition under one mutex, and its futex where one has to wait. */
#include <pthread.h>

char *testcase_description = "add to a counter under one mutex that all threads share";

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long counter;

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		pthread_mutex_lock(&mutex);
		counter++;
		pthread_mutex_unlock(&mutex);
		(*iterations)++;
	}
}
