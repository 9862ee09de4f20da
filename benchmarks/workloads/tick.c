// SPDX-License-Identifier: GPL-2.0-or-later
/* Nearly nothing: for who wants the agent to look at what others do. */
#include <unistd.h>

char *testcase_description = "sleep for a second";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	for (;;) {
		sleep(1);
		++*iterations;
	}
}
