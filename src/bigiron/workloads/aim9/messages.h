/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tests of messages share: a task writes one and reads it itself, of 37 lengths in turn. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include "aim9.h"

static const int lengths[] = {
	1, 3, 5, 7, 16, 32, 64, 512, 1024, 2048, 4096, 1, 3, 5, 7, 16, 32, 64, 512, 1024, 2048, 4096,
	32, 32, 32, 32, 32, 32, 512, 512, 512, 512, 512, 2048, 2048, 2048, 2048,
};

#define LENGTHS (sizeof(lengths) / sizeof(*lengths))

OURS void read_message(int fd, char *message, int length)
{
	for (ssize_t some; length; length -= some) {
		some = read(fd, message, length);
		if (some <= 0)
			die("aim9: read");
	}
}

OURS void __attribute__((noreturn)) pass_messages(unsigned long long *iterations, int to, int from)
{
	char message[4096] = { 0 };

	for (unsigned long nr = 0;; nr++) {
		int length = lengths[nr % LENGTHS];

		if (write(to, message, length) != length)
			die("aim9: write");
		read_message(from, message, length);
		(*iterations)++;
	}
}

#endif
