// SPDX-License-Identifier: GPL-2.0-or-later
/* So many short sleeps, and then none: a load with a beginning and an end, that stays to be looked at. */
#include <unistd.h>

#define NAPS 2000

char *testcase_description = "sleep for half a millisecond";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	for (int i = 0; i < NAPS; i++) {
		usleep(500);
		++*iterations;
	}
	for (;;)
		pause();
}
