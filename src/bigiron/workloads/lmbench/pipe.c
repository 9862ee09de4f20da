// SPDX-License-Identifier: GPL-2.0-or-later
/* Sleep, wake-up and switch: run queues, two pipes' mutexes and wait queues. */
/* As lat_pipe. */
#include "lmbench.h"

char *testcase_description = "pass a byte to a process on the same CPU and back by pipes";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct ends own, partner_s;
	int there[2], back[2];

	(void)nr;
	if (pipe(there) || pipe(back))
		die("pipe: pipe");
	own = (struct ends){ .from = back[0], .to = there[1] };
	partner_s = (struct ends){ .from = there[0], .to = back[1] };
	pass_token(iterations, own, &partner_s);
}
