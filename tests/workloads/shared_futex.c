// SPDX-License-Identifier: GPL-2.0-or-later
/* Wait, and at once no longer, on a futex that all threads share: its hash bucket is locked each time. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

char *testcase_description = "futex(FUTEX_WAIT) on a word of all threads, whose value is another";

static int word = 1;

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	for (;;) {
		long waited = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);

		assert(waited == -1 && errno == EAGAIN);
		(*iterations)++;
	}
}
