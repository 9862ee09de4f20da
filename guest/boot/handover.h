/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the controller hands over what a cell is: through memory of which it was told where it lies. */
#ifndef HANDOVER_H
#define HANDOVER_H

#include <stddef.h>

struct room {
	char *bytes;
	size_t size;
};

/* Take as much memory as the file /room says, in MiB. Returns 0, or 1 after reporting the error. */
int room_make(struct room *room);
/* Say where the room lies, and wait until an archive is in it. Returns 0, or 1 after reporting the error. */
int handover_wait(const struct room *room, const char **archive, size_t *length);

#endif
