/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How a program in the kernel numbers the stacks that the agent reads. */
#ifndef STACKS_MAPS_H
#define STACKS_MAPS_H

#define MOST_FRAMES 64
#define TASK_NAME_BYTES 16

/* Stacks of the second map, for those whose place in the first is another's, have this bit in their number. */
#define SECOND_MAP 0x10000000

#endif
