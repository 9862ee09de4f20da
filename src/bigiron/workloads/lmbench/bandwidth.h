/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What lmbench's tests of bandwidth have in common: a task reads what its partner writes in long messages, one way. An
 * operation is a piece of 64 KiB, or a whole message where that is shorter. The partner is on the same CPU here, where the
 * scheduler is free in the original.
 */
#ifndef BANDWIDTH_H
#define BANDWIDTH_H

#include "lmbench.h"

#define MOST_AT_ONCE (64UL << 10)
#ifndef MESSAGE
#define MESSAGE MOST_AT_ONCE
#endif
#define PIECE (MESSAGE < MOST_AT_ONCE ? MESSAGE : MOST_AT_ONCE)

OURS void *write_messages(void *arg)
{
	char *message = malloc(MESSAGE);
	int to = *(int *)arg;

	if (!message)
		die("lmbench: malloc");
	memset(message, 1, MESSAGE); /* not of the page of zeros */
	while (1)
		for (ssize_t done = 0, some; done < (ssize_t)MESSAGE; done += some) {
			some = write(to, message + done, MESSAGE - done);
			if (some <= 0)
				die("lmbench: the partner's write");
		}
	return NULL;
}

OURS void __attribute__((noreturn)) read_messages(unsigned long long *iterations, int from, int *to)
{
	char *piece = malloc(PIECE);

	if (!piece)
		die("lmbench: malloc");
	new_task(write_messages, to);
	while (1) {
		for (ssize_t done = 0, some; done < (ssize_t)PIECE; done += some) {
			some = read(from, piece + done, PIECE - done);
			if (some <= 0)
				die("lmbench: read");
		}
		(*iterations)++;
	}
}

#endif
